/** What only one view has: the cursor in the error map, how a distribution is drawn, the pages of a comparison. */
import { mapOf, movedCursor, worstBlock, type MapCursor } from '../screens/error-map.ts';
import { COMPARE_PAGES, DISTRIBUTIONS, type AppState } from '../state/app-state.ts';
import { shownVariant } from '../state/selectors.ts';
import type { Store } from '../state/store.ts';
import { next, type Command } from './command.ts';

export const inMap = ({ ui }: AppState): boolean => ui.view === 'correct' && ui.mapCursor !== undefined;
const comparing = ({ ui }: AppState): boolean => ui.view === 'latency' && ui.comparing;

/** The case under the cursor, when it has a map. */
function selectedMap(state: AppState) {
  const result = state.ui.view === 'correct' ? shownVariant(state)?.cases[state.ui.selected.correct] : undefined;
  const map = result && mapOf(result);
  return result === undefined || map === undefined ? undefined : { result, map };
}

/** Moves the cursor by blocks of the map. */
export function moveInMap(store: Store, by: { rows?: number; columns?: number }): void {
  const selected = selectedMap(store.state);
  const cursor = store.state.ui.mapCursor;
  if (selected !== undefined && cursor !== undefined) show(store, movedCursor(cursor, selected.map, by));
}

const show = (store: Store, cursor: MapCursor | undefined): void => store.dispatch({ type: 'map-cursor', cursor });

export const MAP_COMMANDS: Command[] = [
  {
    id: 'into-map',
    keys: ['enter'],
    group: 'views',
    help: 'In 2 Correct: a cursor over the error map',
    hint: 'map',
    when: (state) => !inMap(state) && selectedMap(state) !== undefined,
    run: ({ store }) => {
      const selected = selectedMap(store.state);
      if (selected !== undefined) show(store, worstBlock(selected.result, selected.map));
    },
  },
  {
    id: 'map-left',
    keys: ['h', 'left'],
    group: 'views',
    help: 'In the error map: a block to the left',
    hint: 'block',
    when: inMap,
    run: ({ store }) => moveInMap(store, { columns: -1 }),
  },
  {
    id: 'map-right',
    keys: ['l', 'right'],
    group: 'views',
    help: 'In the error map: a block to the right',
    when: inMap,
    run: ({ store }) => moveInMap(store, { columns: 1 }),
  },
  {
    id: 'leave-map',
    keys: ['escape', 'enter'],
    group: 'views',
    help: 'Out of the error map, back to the cases',
    hint: 'cases',
    when: inMap,
    run: ({ store }) => show(store, undefined),
  },
];

export const LATENCY_COMMANDS: Command[] = [
  {
    id: 'distribution',
    keys: ['p'],
    group: 'views',
    help: 'In 3 Latency: histogram, ECDF, or both',
    hint: 'plot',
    when: (state) => state.ui.view === 'latency' && !comparing(state),
    run: ({ store }) =>
      store.dispatch({ type: 'distribution', plot: next(DISTRIBUTIONS, store.state.ui.distribution) }),
  },
  {
    id: 'next-comparison-page',
    keys: ['d'],
    group: 'views',
    help: 'Comparing: latency, all figures, source diff',
    hint: 'figures, diff',
    when: comparing,
    run: ({ store }) => store.dispatch({ type: 'compare-page', page: next(COMPARE_PAGES, store.state.ui.comparePage) }),
  },
];
