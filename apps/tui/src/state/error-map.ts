/** The error map of a case and the cursor that goes over its blocks. */
import type { CaseResult, ErrorMap } from '@flashcore/shared/contract';
import type { AppState } from './app-state.ts';
import { shownVariant } from './selectors.ts';

export interface MapCursor {
  /** Block of the error map, from 0. */
  readonly row: number;
  readonly column: number;
}

/** The map of a case that has one. */
export const mapOf = ({ errorMap }: Pick<CaseResult, 'errorMap'>): ErrorMap | undefined =>
  errorMap !== undefined && errorMap.rows * errorMap.columns > 0 ? errorMap : undefined;

/** The case under the cursor of view 2, when it has a map. */
export function selectedMap(state: AppState): { result: CaseResult; map: ErrorMap } | undefined {
  const result = state.ui.view === 'correct' ? shownVariant(state)?.cases[state.ui.selected.correct] : undefined;
  const map = result && mapOf(result);
  return result === undefined || map === undefined ? undefined : { result, map };
}

/** The block that the cursor starts on: the worst element's, else the first. */
export function worstBlock({ worst }: Pick<CaseResult, 'worst'>, map: ErrorMap): MapCursor {
  return worst === undefined
    ? { row: 0, column: 0 }
    : { row: Math.floor(worst.row / map.blockRows), column: Math.floor(worst.column / map.blockColumns) };
}

export const movedCursor = (
  { row, column }: MapCursor,
  map: ErrorMap,
  { rows = 0, columns = 0 }: { rows?: number; columns?: number },
): MapCursor => ({
  row: Math.max(0, Math.min(map.rows - 1, row + rows)),
  column: Math.max(0, Math.min(map.columns - 1, column + columns)),
});
