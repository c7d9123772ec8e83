import type { Histogram } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { inUnit, timeUnit, type TimeUnit } from './numbers.ts';

const INDENT = 4;
const HEIGHT = 6;
// The last label begins below the last column: "91.70 ms".
const LAST_LABEL = 8;
const EIGHTHS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
// In ASCII a column ends in a full or a half cell.
const HALVES = [' ', '.', '#'];

/**
 * A histogram as columns with a time axis, at most `format.width` wide: neighbouring bins are joined when there are
 * more
 * bins than columns, and drawn wider when there are few. Samples outside the bins are named below. `unit`: of the times
 * beside it; its own by default.
 */
export function histogramLines(histogram: Histogram, format: ReportFormat, unit?: TimeUnit): string[] {
  if (histogram.counts.length === 0) return [];
  const room = format.width - INDENT - LAST_LABEL;
  const joined = Math.ceil(histogram.counts.length / room);
  const counts = joinBins(histogram.counts, joined);
  const columns = Math.max(1, Math.min(4, Math.floor(room / counts.length)));
  const pad = ' '.repeat(INDENT);
  return [
    ...bars(counts, columns, format).map((row) => (pad + format.style('cyan', row)).trimEnd()),
    ...axis(histogram, counts.length * columns, (histogram.binWidthUs * joined) / columns, format, unit).map(
      (row) => pad + row,
    ),
    ...outside(histogram).map((text) => pad + format.style('dim', text)),
  ];
}

function joinBins(counts: readonly number[], group: number): number[] {
  const joined = new Array<number>(Math.ceil(counts.length / group)).fill(0);
  counts.forEach((value, bin) => (joined[Math.floor(bin / group)]! += value));
  return joined;
}

function bars(counts: readonly number[], columns: number, format: ReportFormat): string[] {
  const steps = format.unicode ? EIGHTHS : HALVES;
  const perCell = steps.length - 1;
  const highest = Math.max(1, ...counts);
  // A bin with one sample among thousands still shows: its column has at least the lowest step.
  const heights = counts.map((value) =>
    value === 0 ? 0 : Math.max(1, Math.round((value / highest) * HEIGHT * perCell)),
  );
  return Array.from({ length: HEIGHT }, (_, row) => {
    const below = (HEIGHT - 1 - row) * perCell;
    return heights
      .map((height) => steps[Math.min(perCell, Math.max(0, height - below))]!.repeat(columns))
      .join('')
      .trimEnd();
  });
}

// Marks and labels at the left edge of their column, as many as fit without touching.
function axis(
  histogram: Histogram,
  width: number,
  columnUs: number,
  format: ReportFormat,
  unit = timeUnit(histogram.lowUs + columnUs * width),
): string[] {
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * (width - 1)));
  const line = new Array<string>(width).fill(format.unicode ? '─' : '-');
  let labels = '';
  for (const tick of ticks) {
    const text = inUnit(histogram.lowUs + columnUs * tick, unit);
    if (labels !== '' && tick < labels.length + 2) continue;
    line[tick] = format.unicode ? '┴' : '+';
    labels = labels.padEnd(tick) + text;
  }
  return [format.style('dim', line.join('')), `${labels} ${unit.name}`];
}

function outside(histogram: Histogram): string[] {
  const parts = [
    histogram.underflow > 0 ? `${histogram.underflow} below` : '',
    histogram.overflow > 0 ? `${histogram.overflow} above` : '',
  ].filter(Boolean);
  return parts.length === 0 ? [] : [`not drawn: ${parts.join(', ')} the range`];
}
