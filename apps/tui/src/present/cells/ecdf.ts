/**
 * Empirical distribution of latencies: the share of samples at or below a time, as one curve or two over the same axis.
 */
import { Canvas } from './canvas.ts';
import { padCells } from './cell-text.ts';
import { formatMicroseconds } from '../numbers.ts';
import type { HistogramData } from './histogram.ts';
import { run, type Role, type Row } from './row.ts';

interface EcdfCurve {
  readonly data: HistogramData;
  readonly role: Role;
  /** True to draw only every other dot, so that two curves can be told apart without colors. */
  readonly isDotted?: boolean;
}

/** The ends of an axis of times, microseconds. */
export interface TimeAxis {
  readonly low: number;
  readonly high: number;
}

interface EcdfSize {
  readonly width: number;
  readonly height: number;
  /** Absent if no other plot has the same axis. */
  readonly axis?: TimeAxis;
}

/** The axis that ends where the bins of the curves end. */
const axisOf = (curves: readonly EcdfCurve[]): TimeAxis => ({
  low: Math.min(...curves.map(({ data }) => data.low)),
  high: Math.max(...curves.map(({ data }) => data.low + data.binWidth * data.counts.length)),
});

/**
 * Exactly `height` rows of `width` cells (at least 4): the curves and the axis values, with lines at 50, 90 and 99 %.
 * Samples below the bins raise the start of a curve; samples above them keep its end below 100 %.
 */
export function ecdf(curves: readonly EcdfCurve[], { width, height, axis = axisOf(curves) }: EcdfSize): Row[] {
  const { low, high } = axis;
  const canvas = new Canvas({ width, height: height - 1 });
  const levelY = (share: number): number => Math.round((1 - share) * (canvas.dotRows - 1));
  for (const share of [0.5, 0.9, 0.99])
    canvas.line([0, levelY(share)], [canvas.dotColumns - 1, levelY(share)], 'axis', 4);
  for (const curve of curves) drawCurve(canvas, { ...curve, low, span: Math.max(high - low, Number.EPSILON), levelY });
  for (const [share, label] of [
    [1, '100 %'],
    [0.5, '50 %'],
  ] as const)
    canvas.text(0, Math.floor(levelY(share) / 4), label, { role: 'dim' });
  return [...canvas.rows(), [run(axisValues(low, high, width), 'dim')]];
}

/** On a dotted curve, every third dot is drawn. */
const DOTTED = 3;

interface Drawing extends EcdfCurve {
  readonly low: number;
  readonly span: number;
  readonly levelY: (share: number) => number;
}

function drawCurve(canvas: Canvas, { data, role, low, span, levelY, isDotted = false }: Drawing): void {
  const all = data.underflow + data.overflow + data.counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return;
  const columnOf = (value: number): number => Math.round(((value - low) / span) * (canvas.dotColumns - 1));
  let below = data.underflow;
  let at: readonly [number, number] = [columnOf(data.low), levelY(below / all)];
  data.counts.forEach((count, bin) => {
    below += count;
    const next = [columnOf(data.low + (bin + 1) * data.binWidth), levelY(below / all)] as const;
    canvas.line(at, next, role, isDotted ? DOTTED : 1);
    at = next;
  });
  canvas.line(at, [canvas.dotColumns - 1, at[1]], role, isDotted ? DOTTED : 1);
}

/** The first, middle and last value of an axis, as its lower row. */
export function axisValues(low: number, high: number, width: number): string {
  const [left, middle, right] = [low, (low + high) / 2, high].map((value) => formatMicroseconds(value, high)) as [
    string,
    string,
    string,
  ];
  const room = width - left.length - right.length;
  return padCells(
    left + (room >= middle.length + 4 ? padCells(middle, room, 'center') : ' '.repeat(Math.max(1, room))) + right,
    width,
  );
}
