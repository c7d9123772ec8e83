/** Handlers that move the cursor of a view, or scroll a view without a cursor. */
import type { MOVE_COMMANDS } from '../keymap/commands.ts';
import { focusedPane, layoutOf } from '../screens/chrome/layout.ts';
import { hitOf } from '../screens/hit.ts';
import { runLogSize } from '../screens/run/run.ts';
import { scrolledLog } from '../screens/run/log.ts';
import { screenOf } from '../screens/chrome/message.ts';
import { scrollLimit } from '../screens/views.ts';
import type { Size } from '../screens/pane/view.ts';
import { insideOf } from '../present/cells/frame.ts';
import { attachedJob, jobsOf, railJobAt } from '../state/selectors.ts';
import type { Store } from '../session/store.ts';
import { inMap } from '../keymap/view-commands.ts';
import type { Handler, HandlersOf, KeyContext } from './handler.ts';
import { openJob } from './job-keys.ts';
import { moveInListing, moveInMap } from './view-keys.ts';
import { openListing } from '../state/source-place.ts';
import type { MouseEvent } from '../terminal/modes.ts';

export const MOVE_HANDLERS: HandlersOf<typeof MOVE_COMMANDS> = {
  up: moved(() => -1),
  down: moved(() => 1),
  'half-page-up': moved((rows) => -rows / 2),
  'half-page-down': moved((rows) => rows / 2),
  'page-up': moved((rows) => -rows),
  'page-down': moved((rows) => rows),
  'detail-down': ({ store }) => store.dispatch({ type: 'detail', by: 1 }),
  'detail-up': ({ store }) => store.dispatch({ type: 'detail', by: -1 }),
  first: toEnd('first'),
  last: toEnd('last'),
};

/** Moves the cursor by a distance that depends on the rows of a page; in the rail, it shows another job. */
function moved(by: (pageRows: number) => number): Handler {
  return (context) => {
    const { state } = context.store;
    if (!state.ui.inRail) return move(context.store, by(page(context.store)));
    const rail = layoutOf(screenOf(state))
      .flat(2)
      .find(({ id }) => id === 'jobs-rail');
    showInRail(context, Math.trunc(by(rail === undefined ? 2 : insideOf(rail).height)));
  };
}

function toEnd(end: 'first' | 'last'): Handler {
  return (context) =>
    context.store.state.ui.inRail
      ? showInRail(context, end === 'first' ? -Infinity : Infinity)
      : moveTo(context.store, end);
}

function showInRail(context: KeyContext, by: number): void {
  const job = railJobAt(context.store.state, by);
  if (job !== context.store.state.attached) openJob(context, job);
}

/** Moves the cursor of the focused view, or scrolls it. */
export function move(store: Store, by: number): void {
  const step = Math.trunc(by);
  const { ui } = store.state;
  if (inMap(store.state)) moveInMap(store, { rows: step });
  else if (openListing(store.state) !== undefined) moveInListing(store, step);
  else if (ui.view === 'run')
    store.dispatch({ type: 'log-position', ...scrolledLog(logSlice(store), step, logSize(store)) });
  else
    store.dispatch({
      type: 'move',
      by: step,
      limit: scrollLimit(store.state, ui.view, insideOf(focusedPane(screenOf(store.state)))),
    });
}

function moveTo(store: Store, end: 'first' | 'last'): void {
  const { ui } = store.state;
  if (inMap(store.state)) moveInMap(store, { rows: end === 'first' ? -Infinity : Infinity });
  else if (openListing(store.state) !== undefined) moveInListing(store, end === 'first' ? -Infinity : Infinity);
  else if (ui.view === 'run') store.dispatch({ type: 'log-position', follow: end === 'last', top: store.log.start });
  else
    store.dispatch({
      type: 'move-to',
      end,
      limit: scrollLimit(store.state, ui.view, insideOf(focusedPane(screenOf(store.state)))),
    });
}

const page = (store: Store): number => Math.max(2, insideOf(focusedPane(screenOf(store.state))).height - 2);

const logSlice = (store: Store) => ({ log: store.log, search: store.search, position: store.state.ui.log });

/** Size of the log inside the focused view 1. */
function logSize(store: Store): Size {
  const pane = focusedPane(screenOf(store.state));
  const inside = insideOf(pane);
  return pane.id === 'log' || attachedJob(store.state) === undefined ? inside : runLogSize(store.state, inside);
}

const WHEEL_LINES = 3;

/**
 * The wheel moves like j and k. A click shows the view under the pointer and moves the cursor there. Prompts ignore the
 * mouse.
 */
export function pressMouse(event: MouseEvent, { store }: Pick<KeyContext, 'store'>): void {
  if (store.state.ui.overlay !== undefined) return;
  if (event.kind === 'wheel') return move(store, event.by * WHEEL_LINES);
  const hit = hitOf({ state: store.state, log: store.log, search: store.search }, event);
  if (hit === undefined) return;
  if (store.state.ui.inRail) store.dispatch({ type: 'rail', on: false });
  if (hit.job !== undefined && store.state.ui.jobList !== 'jobs') store.dispatch({ type: 'job-list', list: 'jobs' });
  if (hit.view !== store.state.ui.view) store.dispatch({ type: 'show', view: hit.view });
  if (hit.job !== undefined) {
    // The rail shows jobs that the filter of view 6 hides.
    if (jobsOf(store.state).every(({ name }) => name !== hit.job))
      store.dispatch({ type: 'list-filter', list: 'jobs', text: '' });
    const place = jobsOf(store.state).findIndex(({ name }) => name === hit.job);
    return store.dispatch({ type: 'move', by: place - store.state.ui.selected.jobs });
  }
  if (hit.by !== 0 && openListing(store.state) !== undefined) moveInListing(store, hit.by);
  else if (hit.by !== 0) store.dispatch({ type: 'move', by: hit.by });
}
