/**
 * The error map of a case with its cursor: which element of a block is worst, what it is and should be, and the tile
 * that it falls in.
 */
import type { CaseResult, ElementError, ErrorMap, Tolerance } from '@flashcore/shared/contract';
import { formatError } from '../../present/numbers.ts';
import { heatMap, type Place } from '../../present/cells/heatmap.ts';
import { flowRows, run, wrapRows, type Row } from '../../present/cells/row.ts';
import type { MapCursor } from '../../state/error-map.ts';
import type { Size } from '../pane/view.ts';
import { elementText } from '../../present/sections/cases.ts';

export function errorMapRows(
  result: CaseResult,
  map: ErrorMap,
  { width, height, cursor }: Size & { cursor: MapCursor | undefined },
): Row[] {
  const place = cursor && { row: cursor.row * map.blockRows, column: cursor.column * map.blockColumns };
  return heatMap({ ...map, values: map.maxAbsError }, { width, height, worst: result.worst, cursor: place });
}

/** What the block under the cursor is: its rows and columns, its worst element, the CTA's tile. */
export function cursorFacts(
  result: CaseResult,
  map: ErrorMap,
  { cursor, width, tolerance }: { cursor: MapCursor; width: number; tolerance: Tolerance | undefined },
): Row[] {
  const first = { row: cursor.row * map.blockRows, column: cursor.column * map.blockColumns };
  const rows = `s${first.row}..${Math.min(first.row + map.blockRows, result.shape?.sequenceLength ?? Infinity) - 1}`;
  const columns = `d${first.column}..${Math.min(first.column + map.blockColumns, result.shape?.headDim ?? Infinity) - 1}`;
  const largest = map.maxAbsError[cursor.row * map.columns + cursor.column] ?? 0;
  const element = worstElementOf(result, map, cursor);
  return [
    ...flowRows(
      [
        [run('▸ ', 'focus'), run(`${rows} ${columns}`, 'title')],
        [
          run(
            Number.isNaN(largest) ? 'NaN or Inf in it' : `largest error ${formatError(largest)}`,
            Number.isNaN(largest) ? 'bad' : undefined,
          ),
        ],
      ],
      width,
    ),
    ...(element === undefined
      ? wrapRows('the runner told no element of this block', width, { indent: 2, hang: 4, role: 'dim' })
      : wrapRows(elementText(element), width, {
          indent: 2,
          hang: 4,
          role: isOutside(element, tolerance) ? 'bad' : 'text',
        })),
    ...wrapRows(tileText(element ?? { ...first }, map, result), width, { indent: 2, hang: 4, role: 'dim' }),
  ];
}

/**
 * Largest error of the block with its place; results of older runners tell only the worst of all and the first
 * mismatches.
 */
function worstElementOf(result: CaseResult, map: ErrorMap, cursor: MapCursor): ElementError | undefined {
  const block = cursor.row * map.columns + cursor.column;
  const index = map.worstIndex[block];
  const { shape } = result;
  if (index !== undefined && shape !== undefined)
    return {
      ...placeOf(index, shape),
      got: map.worstGot[block] ?? NaN,
      want: map.worstWant[block] ?? NaN,
    } as ElementError;
  const isInside = ({ row, column }: Place): boolean =>
    Math.floor(row / map.blockRows) === cursor.row && Math.floor(column / map.blockColumns) === cursor.column;
  return [...(result.worst ? [result.worst] : []), ...result.firstMismatches].find(isInside);
}

/** Index in [B, H, S, D] as its four coordinates. */
function placeOf(
  index: number,
  { heads, sequenceLength, headDim }: { heads: number; sequenceLength: number; headDim: number },
): Omit<ElementError, 'got' | 'want' | '$typeName'> {
  const [vector, column] = [Math.floor(index / headDim), index % headDim];
  const [matrix, row] = [Math.floor(vector / sequenceLength), vector % sequenceLength];
  return { batch: Math.floor(matrix / heads), head: matrix % heads, row, column };
}

const isOutside = ({ got, want }: ElementError, tolerance: Tolerance | undefined): boolean =>
  !Number.isFinite(got) ||
  (tolerance?.absolute !== undefined &&
    tolerance.relative !== undefined &&
    Math.abs(got - want) > tolerance.absolute + tolerance.relative * Math.abs(want));

const FRAGMENT_ROWS = 16;
const FRAGMENT_COLUMNS = 8;

/** "row 11 of query tile 10 of 16", counted from 1; empty where the grid does not tell rows a CTA. */
export function tileOf({ row }: Place, { errorMap, shape }: Pick<CaseResult, 'errorMap' | 'shape'>): string {
  const tileRows = errorMap?.tileRows ?? 0;
  if (tileRows === 0 || shape === undefined) return '';
  const tiles = Math.ceil(shape.sequenceLength / tileRows);
  return `row ${(row % tileRows) + 1} of query tile ${Math.floor(row / tileRows) + 1} of ${tiles}`;
}

/** The CTA's tile of query rows, and the fragment of an m16n8 product in it: where in the kernel's code to look. */
function tileText({ row, column }: Place, { tileRows }: ErrorMap, { shape }: CaseResult): string {
  const fragment = `fragment m16n8 (${Math.floor((tileRows > 0 ? row % tileRows : row) / FRAGMENT_ROWS)}, ${Math.floor(column / FRAGMENT_COLUMNS)})`;
  if (tileRows === 0) return `tile unknown: the grid does not tell rows a CTA; ${fragment} of the head`;
  const tile = Math.floor(row / tileRows);
  const tiles = Math.ceil((shape?.sequenceLength ?? 0) / tileRows);
  const last = Math.min((tile + 1) * tileRows, shape?.sequenceLength ?? Infinity) - 1;
  return `query tile ${tile + 1} of ${tiles} (rows ${tile * tileRows}..${last}), row ${row % tileRows} in it, ${fragment}`;
}
