/** The error map of a case, and the cursor that moves over its blocks. */
import { checkedOf } from './variants.ts';
import type { CaseResult, ErrorMap } from '@flashcore/shared/contract';
import type { AppState } from './app-state.ts';
import { shownVariant } from './selectors.ts';

export interface MapCursor {
  /** Block of the error map, from 0. */
  readonly row: number;
  readonly column: number;
}

/** The error map of a case, if it has one. */
export const mapOf = ({ errorMap }: Pick<CaseResult, 'errorMap'>): ErrorMap | undefined =>
  errorMap !== undefined && errorMap.rows * errorMap.columns > 0 ? errorMap : undefined;

export interface SelectedMap {
  readonly result: CaseResult;
  readonly map: ErrorMap;
}

/** The case under the cursor of view 2, if it has a map. */
export function selectedMap(state: AppState): SelectedMap | undefined {
  const result = state.ui.view === 'correct' ? checkedAt(state) : undefined;
  const map = result && mapOf(result);
  return result === undefined || map === undefined ? undefined : { result, map };
}

/** The block on which the cursor starts: the block with the worst element, or else the first one. */
export function worstBlock({ worst }: Pick<CaseResult, 'worst'>, map: ErrorMap): MapCursor {
  return worst === undefined
    ? { row: 0, column: 0 }
    : { row: Math.floor(worst.row / map.blockRows), column: Math.floor(worst.column / map.blockColumns) };
}

/** The number of blocks in one cell of the drawn map. */
export interface CellBlocks {
  readonly rows: number;
  readonly columns: number;
}

interface BlocksAt {
  rows?: number;
  columns?: number;
  cell?: CellBlocks;
}

/** Moves by whole cells of the drawn map; the cursor is on the first block of its cell. */
export function movedCursor(
  { row, column }: MapCursor,
  map: ErrorMap,
  { rows = 0, columns = 0, cell = { rows: 1, columns: 1 } }: BlocksAt,
): MapCursor {
  const moved = (from: number, by: number, { blocks, size }: { blocks: number; size: number }): number =>
    Math.max(0, Math.min(Math.ceil(blocks / size) - 1, Math.floor(from / size) + by)) * size;
  return {
    row: moved(row, rows, { blocks: map.rows, size: cell.rows }),
    column: moved(column, columns, { blocks: map.columns, size: cell.columns }),
  };
}

/** Number of heads, over all batches, that have their own map; 0 if there is only the map over all heads. */
export const headCount = ({ headMaxAbsError, rows, columns }: ErrorMap): number =>
  Math.floor(headMaxAbsError.length / (rows * columns));

/** The map of one head, counted through all batches; if `head` is undefined, the map over all heads. */
export function errorsOf(
  { maxAbsError, headMaxAbsError, rows, columns }: ErrorMap,
  head: number | undefined,
): number[] {
  return head === undefined ? maxAbsError : headMaxAbsError.slice(head * rows * columns, (head + 1) * rows * columns);
}

/**
 * The head after or before the shown one. Undefined, which stands for all heads, comes before the first and after the
 * last head.
 */
export function nextHead(map: ErrorMap, head: number | undefined, by: 1 | -1): number | undefined {
  const places = headCount(map) + 1;
  const place = ((head ?? -1) + 1 + by + places) % places;
  return place === 0 ? undefined : place - 1;
}

function checkedAt(state: AppState): CaseResult | undefined {
  const variant = shownVariant(state);
  return variant && checkedOf(variant)[state.ui.selected.correct];
}
