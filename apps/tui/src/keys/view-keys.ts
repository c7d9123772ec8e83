/**
 * Handlers that choose and configure the view: the cursor in the error map, the form of a distribution, the pages of a
 * comparison.
 */
import { next } from '../keymap/command.ts';
import { openNotes } from './source-keys.ts';
import type {
  LATENCY_COMMANDS,
  MAP_COMMANDS,
  RAIL_COMMANDS,
  SHOW_COMMANDS,
  VIEW_COMMANDS,
} from '../keymap/view-commands.ts';
import type { Store } from '../session/store.ts';
import { COMPARE_PAGES, DISTRIBUTIONS, LINE_SORTS, VIEWS, type ViewId } from '../state/app-state.ts';
import { movedCursor, selectedMap, worstBlock, type MapCursor, nextHead } from '../state/error-map.ts';
import { listedLines, selectedListed } from '../screens/profile/listing.ts';
import type { Handler, HandlersOf } from './handler.ts';
import { hottestRow, linesTop } from '../screens/profile/profile.ts';
import { scrollLimit } from '../screens/views.ts';
import { cellOfMap } from '../screens/correct/correctness.ts';
import { selectedVariant } from '../state/chosen.ts';
import { openKernelForm } from './form-keys.ts';
import { focusedPane } from '../screens/chrome/layout.ts';
import { screenOf } from '../screens/chrome/message.ts';
import { insideOf } from '../present/cells/frame.ts';
import { listingFiles, openListing } from '../state/source-place.ts';

const show =
  (view: ViewId): Handler =>
  ({ store }) =>
    store.dispatch({ type: 'show', view });

type ShowHandlers = HandlersOf<typeof SHOW_COMMANDS>;

export const SHOW_HANDLERS: ShowHandlers = {
  ...(Object.fromEntries(VIEWS.map((view) => [`show-${view}`, show(view)])) as ShowHandlers),
  'show-jobs': ({ store, session }) => {
    // Pressing 6 again returns from the history or the leaderboard to the jobs.
    if (store.state.ui.view === 'jobs' && store.state.ui.jobList !== 'jobs')
      store.dispatch({ type: 'job-list', list: 'jobs' });
    store.dispatch({ type: 'show', view: 'jobs' });
    // The list marks jobs whose kernel has changed on the runner since.
    void session.lists.kernels();
  },
  'show-kernels': ({ store, session }) => {
    // Pressing 7 again returns from the problems to the kernels.
    if (store.state.ui.view === 'kernels' && store.state.ui.kernelList !== 'kernels')
      store.dispatch({ type: 'kernel-list', list: 'kernels' });
    store.dispatch({ type: 'show', view: 'kernels' });
    void session.lists.ownKernels();
  },
};

export const RAIL_HANDLERS: HandlersOf<typeof RAIL_COMMANDS> = {
  'into-rail': ({ store }) => store.dispatch({ type: 'rail', on: true }),
  'leave-rail': ({ store }) => store.dispatch({ type: 'rail', on: false }),
};

export const VIEW_HANDLERS: HandlersOf<typeof VIEW_COMMANDS> = {
  'next-view': ({ store }) => store.dispatch({ type: 'next-view', step: 1 }),
  'previous-view': ({ store }) => store.dispatch({ type: 'next-view', step: -1 }),
  zoom: ({ store }) => keepingLines(store, () => store.dispatch({ type: 'zoom' })),
  'open-notes': (context) => void openNotes(context),
  'next-finding': ({ store }) => store.dispatch({ type: 'next-finding' }),
  'next-variant': ({ store }) => store.dispatch({ type: 'next-variant' }),
};

/** Moves the cursor by cells of the map as currently drawn. */
export function moveInMap(store: Store, by: { rows?: number; columns?: number }): void {
  const { state } = store;
  const selected = selectedMap(state);
  const cursor = state.ui.mapCursor;
  if (selected === undefined || cursor === undefined) return;
  const cell = cellOfMap(state, selected, insideOf(focusedPane(screenOf(state))));
  showCursor(store, movedCursor(cursor, selected.map, { ...by, cell }));
}

function chooseHead(store: Store, by: 1 | -1): void {
  const selected = selectedMap(store.state);
  if (selected !== undefined)
    store.dispatch({ type: 'map-head', head: nextHead(selected.map, store.state.ui.mapHead, by) });
}

const showCursor = (store: Store, cursor: MapCursor | undefined): void =>
  store.dispatch({ type: 'map-cursor', cursor });

export const MAP_HANDLERS: HandlersOf<typeof MAP_COMMANDS> = {
  'into-map': ({ store }) => {
    const selected = selectedMap(store.state);
    if (selected === undefined) return;
    showCursor(store, worstBlock(selected.result, selected.map));
    // Moves the cursor to the first block of its cell, which may stand for several blocks.
    moveInMap(store, {});
  },
  'map-left': ({ store }) => moveInMap(store, { columns: -1 }),
  'map-right': ({ store }) => moveInMap(store, { columns: 1 }),
  'next-head': ({ store }) => chooseHead(store, 1),
  'previous-head': ({ store }) => chooseHead(store, -1),
  'leave-map': ({ store }) => showCursor(store, undefined),
};

/**
 * Changes the order of the source lines, and scrolls to the title of the table, because the largest figures are below
 * it.
 */
export function sortLines(store: Store): void {
  store.dispatch({ type: 'line-order', sort: next(LINE_SORTS, store.state.ui.lineSort) });
  if (openListing(store.state) !== undefined) return;
  const row = linesTop(store.state, insideOf(focusedPane(screenOf(store.state))).width);
  if (row !== undefined) scrollProfile(store, row);
}

/**
 * Keeps the source lines of view 4 in place during a change of its size, and the hottest line on the screen if it was
 * there: the advice above the lines takes another number of rows at another width.
 */
function keepingLines(store: Store, change: () => void): void {
  const before = linesPlace(store);
  change();
  const after = linesPlace(store);
  if (before === undefined || after === undefined) return;
  const top = before.top < before.first ? before.top : after.first + before.top - before.first;
  const wasSeen = before.hottest >= before.top && before.hottest < before.top + before.height;
  const least = wasSeen ? after.hottest - after.height + 1 : 0;
  scrollProfile(store, Math.max(least, top));
}

/** The rows of the source lines in view 4, and the rows that it shows; undefined in other views and without lines. */
function linesPlace({ state }: Store) {
  const { width, height } = insideOf(focusedPane(screenOf(state)));
  const [first, hottest] = [linesTop(state, width), hottestRow(state, width)];
  if (state.ui.view !== 'profile' || openListing(state) !== undefined) return undefined;
  if (first === undefined || hottest === undefined) return undefined;
  const top = Math.min(state.ui.selected.profile, scrollLimit(state, 'profile', { width, height }) ?? 0);
  return { first, hottest, top, height };
}

function scrollProfile(store: Store, row: number): void {
  const { state } = store;
  const limit = scrollLimit(state, 'profile', insideOf(focusedPane(screenOf(state))));
  store.dispatch({ type: 'move', by: Math.max(0, row) - state.ui.selected.profile, limit });
}

/** Moves the cursor among the listed source lines. */
export function moveInListing(store: Store, by: number): void {
  const lines = listedLines(store.state);
  const wanted = Math.max(0, Math.min(selectedListed(store.state, lines) + by, lines.length - 1));
  const line = lines[wanted]?.line;
  if (line !== undefined) store.dispatch({ type: 'listed-place', place: { file: line.file, line: line.line } });
}

export const LATENCY_HANDLERS: HandlersOf<typeof LATENCY_COMMANDS> = {
  'run-variant': (context) => {
    const chosen = selectedVariant(context.store.state);
    if (chosen !== undefined) void openKernelForm(context, chosen.kernel, { parameters: chosen.variant.parameters });
  },
  instructions: ({ store }) => {
    const { listing } = store.state.ui;
    const following = listing === undefined ? 0 : listing + 1;
    const isLast = following >= listingFiles(store.state).length;
    store.dispatch({ type: 'show-listing', listing: isLast ? undefined : following });
  },
  'leave-instructions': ({ store }) => store.dispatch({ type: 'show-listing', listing: undefined }),
  'hottest-line': ({ store }) => {
    if (openListing(store.state) !== undefined) return store.dispatch({ type: 'listed-place', place: undefined });
    const row = hottestRow(store.state, insideOf(focusedPane(screenOf(store.state))).width);
    // Keeps two rows above the line: neighboring lines, or the column heads.
    if (row !== undefined) scrollProfile(store, row - 2);
  },
  distribution: ({ store }) =>
    store.dispatch({ type: 'distribution', plot: next(DISTRIBUTIONS, store.state.ui.distribution) }),
  'next-comparison-page': ({ store }) =>
    store.dispatch({ type: 'compare-page', page: next(COMPARE_PAGES, store.state.ui.comparePage) }),
};
