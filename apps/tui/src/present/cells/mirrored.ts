/** Two latency histograms over one axis: the first grows up from it, the second down. */
import { axisValues } from './ecdf.ts';
import { run, type Row } from './row.ts';
import type { HistogramData } from './histogram.ts';

const UP = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
// No font has blocks that hang down by every eighth: a line, a half, a whole.
const DOWN = [' ', '▔', '▔', '▀', '▀', '▀', '▀', '█', '█'];

export interface Mirrored {
  readonly upper: HistogramData;
  readonly lower: HistogramData;
}

interface MirroredSize {
  width: number;
  height: number;
  medians: readonly [number, number];
}

/**
 * Exactly `height` rows of `width` cells (at least 4): bars, the axis with both medians marked, bars, the axis' values;
 * an axis of counts at the left. Both have the same bins, as wide as the wider of theirs and at least a cell; each side
 * is scaled to its own highest bar.
 */
export function mirroredHistogram({ upper, lower }: Mirrored, { width, height, medians }: MirroredSize): Row[] {
  let { bins, above, below, countCells, cells } = laidOut({ upper, lower }, width, width);
  // More bins than cells: some would not show. Fewer bins have higher counts, which may take a cell more.
  while (bins.count > cells) ({ bins, above, below, countCells, cells } = laidOut({ upper, lower }, width, cells));
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
    ...counted(barsOf(columns(above), rowsAbove, UP).toReversed(), above, { role: 'bar', highest: 0 }),
    [run(`${'0'.padStart(countCells - 1)}┼`, 'axis'), run(axis, 'axis')],
    ...counted(barsOf(columns(below), rowsBelow, DOWN), below, { role: 'barAlternative', highest: rowsBelow - 1 }),
    [run(' '.repeat(countCells)), run(axisValues(bins.low, bins.low + bins.span, cells), 'dim')],
  ];
}

/** Both in at most `mostBins` bins, and how many of `width` cells are for counts and for bars. */
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

/** Bins that fit both: no finer than either was counted in, `most` at most. */
function sharedBins(upper: HistogramData, lower: HistogramData, most: number): Bins {
  const low = Math.min(upper.low, lower.low);
  const span = Math.max(endOf(upper), endOf(lower)) - low;
  const width = Math.max(upper.binWidth, lower.binWidth, Number.EPSILON);
  const count = Math.max(1, Math.min(most, Math.ceil(span / width - 1e-9)));
  return { low, span: Math.max(span, count * width, Number.EPSILON), count };
}

/** Samples a shared bin: one of the data's own spreads evenly over those that it covers. */
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

/** Rows of bars, the one at the axis first. What is above 0 shows. */
function barsOf(columns: readonly number[], height: number, blocks: readonly string[]): string[] {
  const most = Math.max(...columns, Number.EPSILON);
  const eighths = columns.map((count) => (count === 0 ? 0 : Math.max(1, Math.round((count / most) * height * 8))));
  return Array.from({ length: height }, (_, row) =>
    eighths.map((level) => blocks[Math.max(0, Math.min(8, level - row * 8))] ?? ' ').join(''),
  );
}
