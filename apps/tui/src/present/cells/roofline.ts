/**
 * The roofline: the device's limit at each arithmetic intensity, and the kernel's place below it. Both axes are
 * logarithmic.
 */
import { Canvas } from './canvas.ts';
import { padCells } from './cell-text.ts';
import { formatNumber } from '../numbers.ts';
import { run, type Role, type Row } from './row.ts';

interface RooflineData {
  /** Dense fp16 tensor throughput, TFLOP/s. */
  readonly peakTflops: number;
  /** Device memory bandwidth, GB/s. */
  readonly memoryGbPerSecond: number;
  readonly points: readonly RooflinePoint[];
}

export interface RooflinePoint {
  /** A single character. */
  readonly mark: string;
  /** FLOPs per byte. */
  readonly intensity: number;
  readonly tflops: number;
  readonly role: Role;
}

/** TFLOP/s that the roof allows at an intensity: the lower of the two ceilings (Williams, Waterman, Patterson 2009). */
export const roofAt = (
  { peakTflops, memoryGbPerSecond }: Pick<RooflineData, 'peakTflops' | 'memoryGbPerSecond'>,
  intensity: number,
): number => Math.min(peakTflops, (memoryGbPerSecond * intensity) / 1000);

/** The intensity in FLOPs per byte above which the tensor cores are the limit rather than the memory. */
export const ridgeOf = ({
  peakTflops,
  memoryGbPerSecond,
}: Pick<RooflineData, 'peakTflops' | 'memoryGbPerSecond'>): number => (peakTflops * 1000) / memoryGbPerSecond;

const LEAST_DECADES = 2;

/** Exactly `height` rows of at most `width` cells (at least 30 x 6): the plot and the axis values. */
export function roofline(data: RooflineData, { width, height }: { width: number; height: number }): Row[] {
  const ridge = ridgeOf(data);
  const intensities = [ridge, ...data.points.map(({ intensity }) => intensity)];
  const x = logRange(Math.min(...intensities) / 4, Math.max(...intensities) * 4);
  const y = logRange(
    Math.min(roofAt(data, 10 ** x.low), ...data.points.map(({ tflops }) => tflops)) / 1.5,
    data.peakTflops * 1.6,
  );
  const canvas = new Canvas({ width, height: height - 1 });
  const column = (intensity: number): number =>
    Math.round(((Math.log10(intensity) - x.low) / (x.high - x.low)) * (canvas.dotColumns - 1));
  const line = (tflops: number): number =>
    Math.round((1 - (Math.log10(tflops) - y.low) / (y.high - y.low)) * (canvas.dotRows - 1));
  const corner = [column(ridge), line(data.peakTflops)] as const;
  canvas.line([column(10 ** x.low), line(roofAt(data, 10 ** x.low))], corner, 'bar');
  canvas.line(corner, [canvas.dotColumns - 1, corner[1]], 'bar');
  for (const { intensity, tflops } of data.points)
    canvas.line([column(intensity), line(roofAt(data, intensity))], [column(intensity), line(tflops)], 'axis', 3);
  const peak = `${formatNumber(data.peakTflops)} TFLOP/s`;
  const above = Math.floor(corner[1] / 4) - 1;
  canvas.text(Math.max(0, width - peak.length), Math.max(0, above), peak, { role: 'dim', gently: true });
  canvas.text(0, Math.max(0, above), `${formatNumber(data.memoryGbPerSecond)} GB/s`, { role: 'dim', gently: true });
  for (const { mark, intensity, tflops, role } of data.points)
    canvas.text(Math.floor(column(intensity) / 2), Math.floor(line(tflops) / 4), mark, { role });
  return [...canvas.rows(), [run(intensityAxis(x, width), 'dim')]];
}

/** The range as powers of ten, at least two decades wide so that the slope is visible. */
function logRange(low: number, high: number): { low: number; high: number } {
  const to = Math.log10(high);
  return { low: Math.min(Math.log10(low), to - LEAST_DECADES), high: to };
}

function intensityAxis({ low, high }: { low: number; high: number }, width: number): string {
  const [left, right] = [
    formatNumber(Number((10 ** low).toPrecision(2))),
    `${formatNumber(Number((10 ** high).toPrecision(2)))} FLOP/B`,
  ];
  return padCells(left + ' '.repeat(Math.max(1, width - left.length - right.length)) + right, width);
}
