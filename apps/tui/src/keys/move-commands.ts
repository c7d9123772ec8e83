/** Moving the cursor of a view, or scrolling those that have none. */
import { focusedPane } from '../screens/layout.ts';
import { runLogSize } from '../screens/run.ts';
import { scrolledLog } from '../screens/log.ts';
import { screenOf } from '../screens/message.ts';
import { scrollLimit } from '../screens/views.ts';
import type { Size } from '../screens/view.ts';
import { insideOf } from '../plot/frame.ts';
import { attachedJob } from '../state/selectors.ts';
import type { AppState } from '../state/app-state.ts';
import type { Store } from '../state/store.ts';
import type { Command } from './command.ts';
import { inMap, moveInMap } from './view-commands.ts';

const hasDetails = ({ ui }: AppState): boolean =>
  ui.view === 'correct' || ui.view === 'latency' || ui.view === 'kernels';

export const MOVE_COMMANDS: Command[] = [
  {
    id: 'up',
    keys: ['k', 'up'],
    group: 'moving',
    help: 'Up; in the log this ends following',
    run: ({ store }) => move(store, -1),
  },
  { id: 'down', keys: ['j', 'down'], group: 'moving', help: 'Down', hint: 'move', run: ({ store }) => move(store, 1) },
  {
    id: 'half-page-up',
    keys: ['ctrl+u'],
    group: 'moving',
    help: 'Half a page up',
    run: ({ store }) => move(store, -page(store) / 2),
  },
  {
    id: 'half-page-down',
    keys: ['ctrl+d'],
    group: 'moving',
    help: 'Half a page down',
    run: ({ store }) => move(store, page(store) / 2),
  },
  {
    id: 'page-up',
    keys: ['pageup'],
    group: 'moving',
    help: 'A page up',
    run: ({ store }) => move(store, -page(store)),
  },
  {
    id: 'page-down',
    keys: ['pagedown', 'space'],
    group: 'moving',
    help: 'A page down',
    run: ({ store }) => move(store, page(store)),
  },
  {
    id: 'detail-down',
    keys: ['J'],
    group: 'moving',
    help: 'Next page of the details in 2, 3 and 7',
    when: hasDetails,
    run: ({ store }) => store.dispatch({ type: 'detail', by: 1 }),
  },
  {
    id: 'detail-up',
    keys: ['K'],
    group: 'moving',
    help: 'Page of the details before',
    when: hasDetails,
    run: ({ store }) => store.dispatch({ type: 'detail', by: -1 }),
  },
  {
    id: 'first',
    keys: ['g', 'home'],
    group: 'moving',
    help: 'To the beginning',
    run: ({ store }) => moveTo(store, 'first'),
  },
  {
    id: 'last',
    keys: ['G', 'end'],
    group: 'moving',
    help: 'To the end; in the log this follows again',
    run: ({ store }) => moveTo(store, 'last'),
  },
];

/** Moves the cursor of the focused view, or scrolls it. */
export function move(store: Store, by: number): void {
  const step = Math.trunc(by);
  const { ui } = store.state;
  if (inMap(store.state)) moveInMap(store, { rows: step });
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
  else if (ui.view === 'run') store.dispatch({ type: 'log-position', follow: end === 'last', top: store.log.start });
  else
    store.dispatch({
      type: 'move-to',
      end,
      limit: scrollLimit(store.state, ui.view, insideOf(focusedPane(screenOf(store.state)))),
    });
}

const page = (store: Store): number => Math.max(2, insideOf(focusedPane(screenOf(store.state))).height - 2);

export const logSlice = (store: Store) => ({ log: store.log, search: store.search, position: store.state.ui.log });

/** Size of the log inside the focused view 1. */
export function logSize(store: Store): Size {
  const inside = insideOf(focusedPane(screenOf(store.state)));
  const job = attachedJob(store.state);
  return job === undefined ? inside : runLogSize(job, store.state.now, inside);
}
