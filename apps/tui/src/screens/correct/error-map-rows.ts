/**
 * The error map of a case with its cursor: the worst element of a block, its actual and expected values, and its tile.
 */
import type { CaseResult, ElementError, ErrorMap, Tolerance } from '@flashcore/shared/contract';
import { valuesOf } from '@flashcore/shared/kernels';
import { formatCount, formatError } from '../../present/numbers.ts';
import { elementsIn, heatMap, indexLetters, type Place } from '../../present/cells/heatmap.ts';
import { flowRows, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { type MapCursor, errorsOf, headCount, type CellBlocks } from '../../state/error-map.ts';
import type { Size } from '../pane/view.ts';
import { elementText, limitWords } from '../../present/sections/cases.ts';

interface MapChoice {
  readonly cursor: MapCursor | undefined;
  /** Undefined for the map over all heads. */
  readonly head: number | undefined;
  readonly tolerance: Tolerance | undefined;
}

export function errorMapRows(
  result: CaseResult,
  map: ErrorMap,
  { width, height, cursor, head, tolerance }: Size & MapChoice,
): Row[] {
  const place = cursor && { row: cursor.row * map.blockRows, column: cursor.column * map.blockColumns };
  const title = headRow(result, map, head);
  return [
    ...title,
    ...heatMap(
      {
        ...map,
        isNamed: result.output !== '',
        values: errorsOf(map, head),
        outside: head === undefined ? map.outside : [],
        ...(head === undefined && { beyond: beyondIn(map, tolerance) }),
      },
      {
        width,
        height: height - title.length,
        worst: worstIn(result, head),
        worstWords: limitWords(result),
        cursor: place,
      },
    ),
  ];
}

/** Whether each block's worst element is beyond the tolerance; undefined if that is not known. */
const beyondIn = ({ worstGot, worstWant }: ErrorMap, tolerance: Tolerance | undefined): boolean[] | undefined =>
  tolerance?.absolute === undefined || worstGot.length === 0
    ? undefined
    : worstGot.map((got, block) => isOutside({ got, want: worstWant[block] ?? NaN }, tolerance));

/** Shows which heads the map covers, if the map can be shown for one head. */
function headRow({ shape }: CaseResult, map: ErrorMap, head: number | undefined): Row[] {
  const count = headCount(map);
  if (count < 2) return [];
  const { heads } = extentOf({ shape, errorMap: map }) ?? { heads: count };
  const what = head === undefined ? `all ${count} heads` : `batch ${Math.floor(head / heads)} head ${head % heads}`;
  return [[run(what, 'title'), run('  [ ] choose a head', 'key')]];
}

/** Rows of the map's pane above the blocks. */
export const mapHeadRows = (map: ErrorMap): number => (headCount(map) < 2 ? 0 : 1);

/** The worst element of all, if it is in the head shown. */
function worstIn(result: CaseResult, head: number | undefined): ElementError | undefined {
  const { worst } = result;
  const extent = extentOf(result);
  if (worst === undefined || head === undefined || extent === undefined) return worst;
  return worst.batch * extent.heads + worst.head === head ? worst : undefined;
}

interface CursorView {
  cursor: MapCursor;
  head?: number | undefined;
  cell: CellBlocks;
  width: number;
  tolerance: Tolerance | undefined;
  /** Whether the kernel uses tensor cores, so that fragments have a meaning. */
  fragments: boolean;
}

/** Describes the cell under the cursor: rows and columns, worst element, and the CTA's tile. */
export function cursorFacts(
  result: CaseResult,
  map: ErrorMap,
  { cursor, head, cell, width, tolerance, fragments }: CursorView,
): Row[] {
  const first = { row: cursor.row * map.blockRows, column: cursor.column * map.blockColumns };
  const extent = extentOf(result);
  const last = (from: number, size: number, limit: number | undefined): number =>
    Math.min(from + size, limit ?? Infinity) - 1;
  const letters = indexLetters({ ...map, isNamed: result.output !== '' });
  const rows = `${letters.row}${first.row}..${last(first.row, map.blockRows * cell.rows, extent?.rows)}`;
  const columns = `${letters.column}${first.column}..${last(first.column, map.blockColumns * cell.columns, extent?.columns)}`;
  const block = worstBlockIn(map, { cursor, cell, head });
  const largest = errorsOf(map, head)[block] ?? 0;
  const element = worstElementOf(result, map, block);
  const isOther =
    head !== undefined && element !== undefined && element.batch * (extent?.heads ?? 1) + element.head !== head;
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
        ...(head === undefined ? outsideWords(map, { cursor, cell }) : []),
      ],
      width,
    ),
    ...(element === undefined || isOther
      ? wrapRows(
          isOther
            ? "element errors are available only for the block's worst head"
            : 'no element error is available for this block',
          width,
          { indent: 2, hang: 4, role: 'dim' },
        )
      : wrapRows(elementText(element, result), width, {
          indent: 2,
          hang: 4,
          role: isOutside(element, tolerance) ? 'bad' : 'text',
        })),
    ...wrapRows(placeText(element === undefined || isOther ? first : element, { map, result, fragments }), width, {
      indent: 2,
      hang: 4,
      role: 'dim',
    }),
  ];
}

/** Text such as "128 of 4,096 elements beyond the tolerance"; nothing if none is, or if their number is unknown. */
function outsideWords(map: ErrorMap, { cursor, cell }: Omit<CellView, 'head'>): Row[] {
  const blocks = blocksIn(map, { cursor, cell });
  const outside = blocks.reduce((sum, block) => sum + Number(map.outside[block] ?? 0), 0);
  const elements = blocks.reduce(
    (sum, block) => sum + elementsIn({ ...map, row: Math.floor(block / map.columns), column: block % map.columns }),
    0,
  );
  return outside === 0 || !Number.isFinite(elements)
    ? []
    : [[run(`${formatCount(outside)} of ${formatCount(elements)} elements beyond the tolerance`, 'bad')]];
}

interface CellView {
  cursor: MapCursor;
  cell: CellBlocks;
  head: number | undefined;
}

/** Index of the block with the largest error in the cell; a block with a non-finite element comes before all others. */
function worstBlockIn(map: ErrorMap, { cursor, cell, head }: CellView): number {
  const errors = errorsOf(map, head);
  return blocksIn(map, { cursor, cell }).reduce((worst, block) =>
    badnessOf(errors[block]) > badnessOf(errors[worst]) ? block : worst,
  );
}

/** Indices of the blocks in the cell under the cursor. */
function blocksIn(map: ErrorMap, { cursor, cell }: Omit<CellView, 'head'>): number[] {
  const rows = Math.min(cell.rows, map.rows - cursor.row);
  const columns = Math.min(cell.columns, map.columns - cursor.column);
  return Array.from(
    { length: rows * columns },
    (_, index) => (cursor.row + Math.floor(index / columns)) * map.columns + cursor.column + (index % columns),
  );
}

const badnessOf = (error = 0): number => (Number.isNaN(error) ? Infinity : error);

/**
 * The block's worst element with its place. Results of older runners contain only the worst element of all and the
 * first mismatches.
 */
function worstElementOf(result: CaseResult, map: ErrorMap, block: number): ElementError | undefined {
  const index = map.worstIndex[block];
  const extent = extentOf(result);
  if (index !== undefined && extent !== undefined)
    return {
      ...placeOf(index, extent),
      got: map.worstGot[block] ?? NaN,
      want: map.worstWant[block] ?? NaN,
    } as ElementError;
  const isInside = ({ row, column }: Place): boolean =>
    Math.floor(row / map.blockRows) * map.columns + Math.floor(column / map.blockColumns) === block;
  return [...(result.worst ? [result.worst] : []), ...result.firstMismatches].find(isInside);
}

/** The last three dimensions of an output. */
interface OutputExtent {
  heads: number;
  rows: number;
  columns: number;
}

/** The extent of a case's output. Older records are always about attention and do not name the dimensions. */
function extentOf({ errorMap, shape }: Pick<CaseResult, 'errorMap' | 'shape'>): OutputExtent | undefined {
  const dims = (errorMap?.outputDims ?? []).map(Number);
  if (dims.length > 0) {
    const [columns = 1, rows = 1, heads = 1] = dims.toReversed();
    return { heads, rows, columns };
  }
  if (shape === undefined) return undefined;
  const { H: heads = 1, S: rows = 1, D: columns = 1 } = valuesOf(shape);
  return { heads, rows, columns };
}

/** Converts an index in [batches, heads, rows, columns] to its four coordinates. */
function placeOf(
  index: number,
  { heads, rows, columns }: OutputExtent,
): Omit<ElementError, 'got' | 'want' | '$typeName'> {
  const [vector, column] = [Math.floor(index / columns), index % columns];
  const [matrix, row] = [Math.floor(vector / rows), vector % rows];
  return { batch: Math.floor(matrix / heads), head: matrix % heads, row, column };
}

const isOutside = ({ got, want }: Pick<ElementError, 'got' | 'want'>, tolerance: Tolerance | undefined): boolean =>
  !Number.isFinite(got) ||
  (tolerance?.absolute !== undefined &&
    tolerance.relative !== undefined &&
    Math.abs(got - want) > tolerance.absolute + tolerance.relative * Math.abs(want));

const FRAGMENT_ROWS = 16;
const FRAGMENT_COLUMNS = 8;

/**
 * Text such as "row 10 of tile 9 (s144..159) of tiles 0..15", where a tile is the rows of a CTA. Empty if they are
 * unknown, and if a CTA has one row, whose index says the same.
 */
export function tileOf(
  { row }: Place,
  { errorMap, shape, output }: Pick<CaseResult, 'errorMap' | 'shape' | 'output'>,
): string {
  const tileRows = errorMap?.tileRows ?? 0;
  const extent = extentOf({ errorMap, shape });
  if (errorMap === undefined || tileRows < 2 || extent === undefined) return '';
  const tile = Math.floor(row / tileRows);
  const last = Math.min((tile + 1) * tileRows, extent.rows) - 1;
  const rows = `${indexLetters({ ...errorMap, isNamed: output !== '' }).row || 'rows '}${tile * tileRows}..${last}`;
  return `row ${row % tileRows} of tile ${tile} (${rows}) of tiles 0..${Math.ceil(extent.rows / tileRows) - 1}`;
}

interface TileView {
  readonly map: ErrorMap;
  readonly result: CaseResult;
  readonly fragments: boolean;
}

/** The CTA's tile of rows, and the m16n8 fragment in it. They say which part of the kernel to look at. */
function placeText(place: Place, { map: { tileRows }, result, fragments }: TileView): string {
  const row = tileRows > 0 ? place.row % tileRows : place.row;
  const fragment = `fragment m16n8 (${Math.floor(row / FRAGMENT_ROWS)}, ${Math.floor(place.column / FRAGMENT_COLUMNS)})`;
  return [tileOf(place, result), ...(fragments ? [fragment] : [])].filter(Boolean).join(', ');
}
