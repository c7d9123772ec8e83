/**
 * An error map of an output as colored cells: columns are blocks of the last dimension, and rows are blocks of the
 * dimension before it.
 */
import { counted, formatError } from '../numbers.ts';
import { padCells } from './cell-text.ts';
import { HEAT_LEVELS, run, type Row, type Run } from './row.ts';

interface HeatMapData {
  readonly rows: number;
  readonly columns: number;
  /** Rows per block. */
  readonly blockRows: number;
  /** Columns per block. */
  readonly blockColumns: number;
  /** False for an output whose dimensions are not attention's; absent if they are. */
  readonly isNamed?: boolean | undefined;
  /** Dimensions of the output; absent if it has four. */
  readonly outputDims?: readonly (bigint | number)[];
  /** Largest |out - ref| of each block, as [rows, columns]; NaN if an element is NaN. */
  readonly values: ArrayLike<number>;
  /** Whether a block has an element beyond the tolerance, if their number is not known; absent if that is not known. */
  readonly beyond?: readonly boolean[] | undefined;
  /** Number of elements beyond the tolerance in each block; empty if that is not known. */
  readonly outside?: ArrayLike<bigint | number> | undefined;
}

/** Text before the indices of rows and columns: "s" and "d" if the output is like attention's, otherwise empty. */
export const indexLetters = ({
  outputDims = [],
  isNamed = false,
}: Pick<HeatMapData, 'outputDims' | 'isNamed'>): { row: string; column: string } =>
  !isNamed && [0, 4].includes(outputDims.length) ? { row: 's', column: 'd' } : { row: '', column: '' };

/** An element of the output. */
export interface Place {
  readonly row: number;
  readonly column: number;
}

// Without color, the same levels are shown as ink density.
const DENSITY = ' .:-=+*#%@';
const LABEL_CELLS = 6;

/** The words of a legend for its marks. */
interface MarkWords {
  worst: string;
  nan: string;
  beyond: string;
  /** The digits. */
  shares: string;
  /** The mark of cells with a higher share than the digits have. */
  all: string;
}

interface HeatMapOptions {
  width: number;
  height: number;
  worst?: Place | undefined;
  /** The legend's words for the mark of `worst`. */
  worstWords?: string | undefined;
  cursor?: Place | undefined;
}

/**
 * Heat map in exactly `height` rows of at most `width` cells: a header with the first and last column, rows of blocks
 * with their first row, and a legend. Blocks that do not fit are merged and show their largest error. The scale is
 * logarithmic, from the least error (at most three decades, at least a factor of 4) to the largest. "N" is NaN, and "X"
 * the block of `worst`. A cell with elements beyond the tolerance begins with "!" or, if their number is known, with a
 * digit: the tenths of its elements, rounded up. Brackets mark the block under the cursor. `worst` and `cursor` are
 * elements.
 */
export function heatMap(
  data: HeatMapData,
  { width, height, worst, worstWords = 'worst', cursor }: HeatMapOptions,
): Row[] {
  const merged = merge(data, blocksInCell(data, { width, height }));
  const cellsPerColumn = Math.max(1, Math.min(6, Math.floor((width - LABEL_CELLS) / merged.columns)));
  const scale = scaleOf(merged.values);
  const letters = indexLetters(data);
  const isAt = (place: Place | undefined, row: number, column: number): boolean =>
    place !== undefined &&
    Math.floor(place.row / merged.blockRows) === row &&
    Math.floor(place.column / merged.blockColumns) === column;
  const body = Array.from({ length: merged.rows }, (_, row): Row => [
    run(padCells(`${letters.row}${row * merged.blockRows}`, LABEL_CELLS), 'dim'),
    ...Array.from({ length: merged.columns }, (__, column) =>
      heatCell(merged.values[row * merged.columns + column] ?? 0, {
        scale,
        cells: cellsPerColumn,
        beyond: beyondMark(merged, row, column),
        worst: isAt(worst, row, column),
        cursor: isAt(cursor, row, column),
      }),
    ).flat(),
  ]);
  const firstColumn = `${letters.column}0`;
  // The last block may have fewer columns than the others.
  const columns = Number(data.outputDims?.at(-1) ?? data.columns * data.blockColumns);
  const lastColumn = `${letters.column}${columns - 1}`;
  const mapCells = merged.columns * cellsPerColumn;
  const header =
    mapCells > lastColumn.length + 3
      ? `${firstColumn}${lastColumn.padStart(mapCells - firstColumn.length)}`
      : firstColumn;
  const begins = (mark: RegExp): boolean => body.some((row) => row.slice(1).some(({ text }) => mark.test(text)));
  const hasShares = begins(/^[1-9]/);
  const marksIn = (words: MarkWords): string[] => [
    ...(hasMark(body, 'X') ? [`X ${words.worst}`] : []),
    ...(hasMark(body, 'N') ? [`N ${words.nan}`] : []),
    ...(hasShares ? [`1-9 ${words.shares}`] : []),
    ...(begins(/^!/) ? [`! ${hasShares ? words.all : words.beyond}`] : []),
  ];
  const marks = marksIn({
    ...{ worst: worstWords, nan: 'NaN or Inf', beyond: 'beyond the tolerance' },
    ...{ shares: 'tenths beyond the tolerance', all: 'more' },
  });
  const short = marksIn({ worst: 'worst', nan: 'NaN', beyond: 'too far', shares: 'tenths wrong', all: 'more' });
  // If no element is finite, the scale has no range.
  const range = scale.largest > 0 ? [`<= ${formatError(scale.least)} to ${formatError(scale.largest)}`] : [];
  const log = range.map((text) => `${text} (log)`);
  const size = `${counted(merged.blockRows, 'row')} x ${counted(merged.blockColumns, 'column')} a cell`;
  // Every mark in the map is explained before the range is.
  const legends = [[size, ...log, ...marks], [...log, ...marks], [...range, ...marks], [...range, ...short], short].map(
    (parts) => inRows(parts, width),
  );
  const most = Math.max(1, height - 1 - body.length);
  const fits = (rows: readonly string[]): boolean => rows.length <= most && rows.every(({ length }) => length <= width);
  return [
    [run(' '.repeat(LABEL_CELLS) + header, 'dim')],
    ...body,
    ...(legends.find(fits) ?? ['']).map((text): Row => [run(text, 'dim')]),
  ];
}

/** Parts separated by commas, as many to a row as fit. */
function inRows(parts: readonly string[], width: number): string[] {
  const rows: string[] = [];
  for (const part of parts) {
    const joined = `${rows.at(-1) ?? ''}, ${part}`;
    if (rows.length > 0 && joined.length <= width) rows[rows.length - 1] = joined;
    else rows.push(part);
  }
  return rows;
}

const hasMark = (rows: readonly Row[], mark: string): boolean =>
  rows.some((row) => row.slice(1).some(({ text }) => text.replaceAll(/[[\] ]/g, '') === mark));

/** Number of blocks per cell in a map of that size: a power of two, so that cells divide tiles. */
export const blocksInCell = (
  data: Pick<HeatMapData, 'rows' | 'columns'>,
  { width, height }: { width: number; height: number },
): { rows: number; columns: number } => ({
  rows: powerOfTwo(data.rows / Math.max(1, height - 2)),
  columns: powerOfTwo(data.columns / Math.max(1, width - LABEL_CELLS)),
});

const powerOfTwo = (least: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, least)));

interface HeatScale {
  /** The error that has level 0. */
  readonly least: number;
  readonly largest: number;
}

/** Level of an error, 0 to HEAT_LEVELS - 1. */
export function heatLevel(value: number, { least, largest }: HeatScale): number {
  if (value <= 0 || largest <= 0) return 0;
  const share = Math.log(value / least) / Math.log(largest / least);
  return Math.max(0, Math.min(HEAT_LEVELS - 1, Math.round(share * (HEAT_LEVELS - 1))));
}

interface HeatCellLook {
  scale: HeatScale;
  cells: number;
  /** The mark of a cell with an element beyond the tolerance; empty if there is none. */
  beyond: string;
  worst: boolean;
  cursor: boolean;
}

function heatCell(value: number, { scale, cells, beyond, worst, cursor }: HeatCellLook): Run[] {
  const level = heatLevel(value, scale);
  const ink = DENSITY[Math.round((level / (HEAT_LEVELS - 1)) * (DENSITY.length - 1))] ?? ' ';
  const mark = markOf(value, worst);
  if (cursor)
    return [
      {
        text:
          cells < 3
            ? padCells(mark ?? '+', cells, 'center')
            : `[${padCells(mark ?? ink.repeat(cells - 2), cells - 2, 'center')}]`,
        role: 'focus',
        selected: true,
      },
    ];
  if (Number.isNaN(value)) return [{ text: padCells('N', cells, 'center'), role: 'bad' }];
  if (mark !== undefined) return [{ text: padCells(mark, cells, 'center'), heat: level }];
  // In a single cell the mark would hide the level.
  if (beyond === '' || cells === 1) return [{ text: ink.repeat(cells), heat: level, isInk: true }];
  return [
    { text: beyond, heat: level },
    { text: ink.repeat(cells - 1), heat: level, isInk: true },
  ];
}

/** "1" for a cell with up to a tenth of its elements beyond the tolerance, "9" for nine tenths, "!" for more. */
function beyondMark(
  { beyond, outside, blockRows, blockColumns, columns, outputDims = [] }: HeatMapData,
  row: number,
  column: number,
): string {
  const cell = row * columns + column;
  if (outside === undefined || outside.length === 0) return beyond?.[cell] ? '!' : '';
  const count = Number(outside[cell] ?? 0);
  if (count === 0) return '';
  const tenths = Math.ceil((10 * count) / elementsIn({ row, column, blockRows, blockColumns, outputDims }));
  return tenths > 9 ? '!' : String(tenths);
}

interface BlockPlace extends Pick<HeatMapData, 'blockRows' | 'blockColumns'> {
  readonly row: number;
  readonly column: number;
  readonly outputDims: NonNullable<HeatMapData['outputDims']>;
}

/** Number of elements of the output in a block, over all batches and heads. The last blocks may have fewer. */
export function elementsIn({ row, column, blockRows, blockColumns, outputDims }: BlockPlace): number {
  const [columns = Infinity, rows = Infinity, ...heads] = outputDims.map(Number).toReversed();
  const extent = (place: number, size: number, limit: number): number => Math.min(size, limit - place * size);
  return (
    extent(row, blockRows, rows) *
    extent(column, blockColumns, columns) *
    heads.reduce((product, size) => product * size, 1)
  );
}

function markOf(value: number, worst: boolean): string | undefined {
  if (Number.isNaN(value)) return 'N';
  return worst ? 'X' : undefined;
}

/**
 * Merges whole blocks, so that every cell stands for the same number of rows and columns. Only the last cells may stand
 * for fewer.
 */
function merge(
  data: HeatMapData,
  { rows: rowsPerCell, columns: columnsPerCell }: { rows: number; columns: number },
): HeatMapData {
  const [rows, columns] = [Math.ceil(data.rows / rowsPerCell), Math.ceil(data.columns / columnsPerCell)];
  const values = new Array<number>(rows * columns).fill(0);
  const beyond = data.beyond && new Array<boolean>(rows * columns).fill(false);
  const outside = data.outside?.length ? new Array<number>(rows * columns).fill(0) : undefined;
  for (let row = 0; row < data.rows; row++) {
    for (let column = 0; column < data.columns; column++) {
      const cell = Math.floor(row / rowsPerCell) * columns + Math.floor(column / columnsPerCell);
      const value = data.values[row * data.columns + column] ?? 0;
      // `Math.max` keeps NaN, so a cell with a NaN is NaN.
      values[cell] = Math.max(values[cell] ?? 0, value);
      if (beyond && data.beyond?.[row * data.columns + column]) beyond[cell] = true;
      if (outside) outside[cell] = (outside[cell] ?? 0) + Number(data.outside?.[row * data.columns + column] ?? 0);
    }
  }
  return {
    rows,
    columns,
    blockRows: data.blockRows * rowsPerCell,
    blockColumns: data.blockColumns * columnsPerCell,
    values,
    beyond,
    outside,
    ...(data.outputDims && { outputDims: data.outputDims }),
  };
}

/** The scale from the smallest error above 0, within limits, to the largest error. NaN and Inf are left out. */
function scaleOf(values: ArrayLike<number>): HeatScale {
  const errors = Array.from(values).filter((value) => Number.isFinite(value) && value > 0);
  const largest = errors.reduce((most, value) => Math.max(most, value), 0);
  const least = errors.reduce((fewest, value) => Math.min(fewest, value), largest);
  return { largest, least: Math.min(largest / 4, Math.max(least, largest / 1000)) };
}
