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

/**
 * Exactly `height` rows of `width` cells (at least 4): bars, the axis with both medians marked, bars, the axis' values.
 * Each side is scaled to its own highest bar.
 */
export function mirroredHistogram(
  { upper, lower }: Mirrored,
  { width, height, medians }: { width: number; height: number; medians: readonly [number, number] },
): Row[] {
  const low = Math.min(upper.low, lower.low);
  const high = Math.max(endOf(upper), endOf(lower));
  const span = Math.max(high - low, Number.EPSILON);
  const barRows = Math.max(2, height - 2);
  const [above, below] = [Math.ceil(barRows / 2), Math.floor(barRows / 2)];
  const columnOf = (value: number): number =>
    Math.min(width - 1, Math.max(0, Math.floor(((value - low) / span) * width)));
  const [up, down] = [columnsOf(upper, width, columnOf), columnsOf(lower, width, columnOf)];
  const axis = Array.from({ length: width }, (_, column) => {
    const [a, b] = [columnOf(medians[0]) === column, columnOf(medians[1]) === column];
    return a && b ? '┼' : a ? '┴' : b ? '┬' : '─';
  }).join('');
  return [
    ...barsOf(up, above, UP)
      .toReversed()
      .map((text): Row => [run(text, 'bar')]),
    [run(axis, 'axis')],
    ...barsOf(down, below, DOWN).map((text): Row => [run(text, 'barAlternative')]),
    [run(axisValues(low, high, width), 'dim')],
  ];
}

const endOf = ({ low, binWidth, counts }: HistogramData): number => low + binWidth * counts.length;

/**
 * Samples a column: a bin spreads evenly over the columns that it covers, so that bins of different widths stand beside
 * each other fairly.
 */
function columnsOf(data: HistogramData, width: number, columnOf: (value: number) => number): number[] {
  const columns = new Array<number>(width).fill(0);
  data.counts.forEach((count, bin) => {
    const first = columnOf(data.low + bin * data.binWidth);
    const last = Math.max(first, columnOf(data.low + (bin + 1) * data.binWidth - data.binWidth * 1e-9));
    for (let column = first; column <= last; column++)
      columns[column] = (columns[column] ?? 0) + count / (last - first + 1);
  });
  return columns;
}

/** Rows of bars, the one at the axis first. What is above 0 shows. */
function barsOf(columns: readonly number[], height: number, blocks: readonly string[]): string[] {
  const most = Math.max(...columns, Number.EPSILON);
  const eighths = columns.map((count) => (count === 0 ? 0 : Math.max(1, Math.round((count / most) * height * 8))));
  return Array.from({ length: height }, (_, row) =>
    eighths.map((level) => blocks[Math.max(0, Math.min(8, level - row * 8))] ?? ' ').join(''),
  );
}
