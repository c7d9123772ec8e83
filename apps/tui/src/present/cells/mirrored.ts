/**
 * Two latency histograms over one axis: the bars of the first grow up from the axis, and the bars of the second grow
 * down.
 */
import { axisValues, type TimeAxis } from './ecdf.ts';
import { run, type Row } from './row.ts';
import type { HistogramData } from './histogram.ts';

const UP = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
// No font has a block for every eighth that hangs from the top of a cell, only a line, a half block and a whole block.
const DOWN = [' ', '▔', '▔', '▀', '▀', '▀', '▀', '█', '█'];

interface Mirrored {
  readonly upper: HistogramData;
  readonly lower: HistogramData;
}

interface MirroredSize {
  width: number;
  height: number;
  medians: readonly [number, number];
}

/**
 * Exactly `height` rows of `width` cells (at least 4): bars, the axis with both medians marked, bars, and the axis
 * values, with an axis of counts at the left. Both sides have the same bins, at least as wide as the wider of the two
 * and as a cell. Each side is scaled to its own highest bar,
 * but a sample has at most two rows.
 */
export function mirroredHistogram({ upper, lower }: Mirrored, { width, height, medians }: MirroredSize): Row[] {
  const { bins, above, below, countCells, cells } = layout({ upper, lower }, width);
  const barRows = Math.max(2, height - 2);
  const [rowsAbove, rowsBelow] = [Math.ceil(barRows / 2), Math.floor(barRows / 2)];
  const columnOf = (value: number): number =>
    Math.min(cells - 1, Math.max(0, Math.floor(((value - bins.low) / bins.span) * cells)));
  const binAt = (column: number): number => Math.min(bins.count - 1, Math.floor((column * bins.count) / cells));
  const columns = (counts: readonly number[]): number[] =>
    Array.from({ length: cells }, (_, column) => counts[binAt(column)] ?? 0);
  const axis = Array.from({ length: cells }, (_, column) => {
    const [isUpper, isLower] = medians.map((median) => columnOf(median) === column);
    if (isUpper && isLower) return '┼';
    if (isUpper) return '┴';
    return isLower ? '┬' : '─';
  }).join('');
  const counted = (texts: readonly string[], counts: readonly number[], side: Side): Row[] =>
    texts.map((text, row) => [
      run(`${(row === side.highest ? String(Math.round(Math.max(...counts))) : '').padStart(countCells - 1)}│`, 'axis'),
      run(text, side.role),
    ]);
  return [
    ...counted(barsOf(columns(above), rowsAbove, UP).toReversed(), above, {
      role: 'bar',
      highest: rowsAbove - rowsOf(above, rowsAbove),
    }),
    [run(`${'0'.padStart(countCells - 1)}┼`, 'axis'), run(axis, 'axis')],
    ...counted(barsOf(columns(below), rowsBelow, DOWN), below, {
      role: 'barAlternative',
      highest: rowsOf(below, rowsBelow) - 1,
    }),
    [run(' '.repeat(countCells)), run(axisValues(bins.low, bins.low + bins.span, cells), 'dim')],
  ];
}

/** The time axis of a histogram of `width` cells, and the cells to its left, so that a plot below can be aligned. */
export function mirroredAxis(both: Mirrored, width: number): { readonly axis: TimeAxis; readonly margin: number } {
  const { bins, countCells } = layout(both, width);
  return { axis: { low: bins.low, high: bins.low + bins.span }, margin: countCells };
}

function layout(both: Mirrored, width: number) {
  let laid = laidOut(both, width, width);
  // If there are more bins than cells, some bins would be hidden. Merging bins raises the counts, whose axis may then
  // need another cell.
  while (laid.bins.count > laid.cells) laid = laidOut(both, width, laid.cells);
  return laid;
}

/** Both histograms in at most `mostBins` bins, and the shares of `width` for counts and for bars. */
function laidOut({ upper, lower }: Mirrored, width: number, mostBins: number) {
  const bins = sharedBins(upper, lower, mostBins);
  const [above, below] = [binned(upper, bins), binned(lower, bins)];
  const countCells = Math.max(...[...above, ...below].map((count) => Math.round(count).toString().length)) + 1;
  return { bins, above, below, countCells, cells: Math.max(1, width - countCells) };
}

interface Side {
  readonly role: 'bar' | 'barAlternative';
  /** The row that the highest bar reaches. */
  readonly highest: number;
}

interface Bins {
  readonly low: number;
  readonly span: number;
  readonly count: number;
}

const endOf = ({ low, binWidth, counts }: HistogramData): number => low + binWidth * counts.length;

/** Bins for both histograms: not finer than the bins of either, and at most `most`. */
function sharedBins(upper: HistogramData, lower: HistogramData, most: number): Bins {
  const low = Math.min(upper.low, lower.low);
  const span = Math.max(endOf(upper), endOf(lower)) - low;
  const width = Math.max(upper.binWidth, lower.binWidth, Number.EPSILON);
  const count = Math.max(1, Math.min(most, Math.ceil(span / width - 1e-9)));
  return { low, span: Math.max(span, count * width, Number.EPSILON), count };
}

/** Samples per shared bin. The samples of an original bin are spread evenly over the shared bins that it covers. */
function binned({ low, binWidth, counts }: HistogramData, bins: Bins): number[] {
  const result = new Array<number>(bins.count).fill(0);
  const wide = bins.span / bins.count;
  counts.forEach((count, bin) => {
    const from = (low + bin * binWidth - bins.low) / wide;
    const to = from + binWidth / wide;
    for (let place = Math.max(0, Math.floor(from)); place < Math.min(bins.count, to); place++) {
      const share = (Math.min(place + 1, to) - Math.max(place, from)) / (to - from);
      if (share > 1e-9) result[place] = (result[place] ?? 0) + count * share;
    }
  });
  return result;
}

/** A sample has at most this many rows, so that two samples are no wall of blocks. */
const ROWS_PER_SAMPLE = 2;

/** The count that would fill `height` rows. */
const fullCount = (counts: readonly number[], height: number): number => Math.max(...counts, height / ROWS_PER_SAMPLE);

/** Rows of the highest bar. */
const rowsOf = (counts: readonly number[], height: number): number =>
  Math.max(1, Math.ceil((height * Math.max(...counts)) / fullCount(counts, height)));

/** Rows of bars, starting at the axis. Every count above 0 is visible. */
function barsOf(columns: readonly number[], height: number, blocks: readonly string[]): string[] {
  const most = fullCount(columns, height);
  const eighths = columns.map((count) => (count === 0 ? 0 : Math.max(1, Math.round((count / most) * height * 8))));
  return Array.from({ length: height }, (_, row) =>
    eighths.map((level) => blocks[Math.max(0, Math.min(8, level - row * 8))] ?? ' ').join(''),
  );
}
