/** A latency histogram as rows of block characters over an axis in microseconds. */
import type { Histogram } from '@flashcore/shared/contract';
import type { PlotMark } from '../blocks.ts';
import { formatMicroseconds } from '../numbers.ts';
import { padCells } from './cell-text.ts';
import { run, type Row } from './row.ts';

export interface HistogramData {
  /** Lower edge of the first bin, microseconds. */
  readonly low: number;
  /** Width of a bin, microseconds. */
  readonly binWidth: number;
  readonly counts: readonly number[];
  readonly underflow: number;
  readonly overflow: number;
}

/** The data of a histogram; undefined if it contains no samples. */
export function histogramData(bins: Histogram | undefined): HistogramData | undefined {
  return bins === undefined || bins.counts.length === 0
    ? undefined
    : {
        low: bins.lowUs,
        binWidth: bins.binWidthUs,
        counts: bins.counts,
        underflow: bins.underflow,
        overflow: bins.overflow,
      };
}

interface HistogramOptions {
  readonly width: number;
  readonly height: number;
  readonly marks?: readonly PlotMark[];
  /** True to add an axis of counts at the left. */
  readonly counts?: boolean;
}

const MAX_COLUMNS_PER_BIN = 8;
const EIGHTHS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/**
 * Histogram in exactly `height` rows of `width` cells: bars, an axis with ticks, tick values and, if `marks` are given,
 * a row that points at them. Every bin has at least one column; bins that do not fit are merged. The ends of the axis
 * name the number of samples beyond the bins.
 */
export function histogram(
  data: HistogramData,
  { width: wholeWidth, height, marks = [], counts = false }: HistogramOptions,
): Row[] {
  const total = data.counts.reduce((sum, count) => sum + count, 0);
  const axisCells = counts ? String(total).length + 1 : 0;
  const width = wholeWidth - axisCells;
  const bins = rebin(data.counts, width);
  // The width of a bar is limited, so that a single sample is a thin bar and does not fill the pane.
  const cells = Math.min(width, bins.length * MAX_COLUMNS_PER_BIN);
  const columns = Array.from({ length: cells }, (_, column) => bins[Math.floor((column * bins.length) / cells)] ?? 0);
  const markRows = marks.length > 0 ? 1 : 0;
  const barRows = Math.max(1, height - 2 - markRows);
  // The last merged bin may extend beyond the data.
  const span = data.binWidth * bins.length * Math.max(1, Math.ceil(data.counts.length / width));
  const columnOf = (value: number): number => Math.round(((value - data.low) / span) * (columns.length - 1));
  // The vertical scale is that of the merged bins.
  const highest = Math.max(0, ...bins);
  const countOf = (row: number): Row => {
    if (!counts) return [];
    const isTick = row === 0 || (barRows >= 4 && row === Math.floor(barRows / 2));
    const value = Math.round((highest * (barRows - row)) / barRows);
    return [run(isTick ? `${String(value).padStart(axisCells - 1)}┤` : `${' '.repeat(axisCells - 1)}│`, 'axis')];
  };
  const before = (text: string): Row => (counts ? [run(padCells(text, axisCells, 'right'), 'axis')] : []);
  return [
    ...bars(columns, barRows).map((text, row): Row => [...countOf(row), run(padCells(text, width), 'bar')]),
    [
      ...before('0┼'),
      run(
        axisLine(
          columns.length,
          width,
          marks.map(({ value }) => columnOf(value)),
        ),
        'axis',
      ),
    ],
    ...(markRows > 0 ? [[...before(''), run(markLine(marks, columnOf, width), 'accent')] satisfies Row] : []),
    [...before(''), run(tickLine(data, { span, columns: columns.length, width, like: marks[0]?.value }), 'dim')],
  ];
}

/** Merges neighboring bins so that at most `columns` remain. The sum of the counts stays the same. */
export function rebin(counts: readonly number[], columns: number): number[] {
  const perColumn = Math.max(1, Math.ceil(counts.length / columns));
  return Array.from({ length: Math.ceil(counts.length / perColumn) }, (_, index) =>
    counts.slice(index * perColumn, (index + 1) * perColumn).reduce((sum, count) => sum + count, 0),
  );
}

/**
 * Bars in eighths of a block, the highest row first. A count above 0 is at least an eighth high, because a single
 * outlier matters.
 */
function bars(columns: readonly number[], height: number): string[] {
  const most = Math.max(1, ...columns);
  const eighths = columns.map((count) => (count === 0 ? 0 : Math.max(1, Math.round((count / most) * height * 8))));
  return Array.from({ length: height }, (_, row) => {
    const below = (height - 1 - row) * 8;
    return eighths.map((level) => EIGHTHS[Math.max(0, Math.min(8, level - below))] ?? ' ').join('');
  });
}

function axisLine(columns: number, width: number, marked: readonly number[]): string {
  return padCells(
    Array.from({ length: columns }, (_, column) => (marked.includes(column) ? '┴' : '─')).join(''),
    width,
  );
}

/** Labels under their places. A label that would touch the one before it is left out. */
function markLine(marks: readonly PlotMark[], columnOf: (value: number) => number, width: number): string {
  let line = '';
  for (const { label, value } of [...marks].sort((a, b) => a.value - b.value)) {
    const start = Math.max(0, Math.min(columnOf(value), width - label.length));
    if (start > line.length || (start === 0 && line === '')) line = line.padEnd(start) + label;
  }
  return padCells(line, width);
}

interface TickLineSize {
  /** A figure shown next to the axis, whose unit the axis takes. */
  like: number | undefined;
  span: number;
  columns: number;
  width: number;
}

/** First, middle and last value of the axis, with the numbers of samples beyond it. */
function tickLine(data: HistogramData, { span, columns, width, like }: TickLineSize): string {
  const high = data.low + span;
  const time = (value: number): string => formatMicroseconds(value, like ?? high);
  const left = `${data.underflow > 0 ? `<${data.underflow} ` : ''}${time(data.low)}`;
  const right = `${time(high)}${data.overflow > 0 ? ` >${data.overflow}` : ''}`;
  const middle = time((data.low + high) / 2);
  const used = Math.min(width, Math.max(columns, left.length + right.length + 1));
  const room = used - left.length - right.length;
  return padCells(
    left + (room >= middle.length + 4 ? padCells(middle, room, 'center') : ' '.repeat(Math.max(1, room))) + right,
    width,
  );
}
