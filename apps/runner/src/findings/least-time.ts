/**
 * The lower bound on time for any kernel that does all of the work, whatever the caches hold. A time below it shows
 * that a kernel leaves out work and is not just fast.
 */
import { type BenchmarkResult, type Device } from '@flashcore/shared/contract';
import { bytesOfTensor, findDataSheet, type ProblemCase } from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages/measuring.ts';

export interface LeastTime {
  leastUs: number;
  /** For example "1.07 GFLOP at the tensor peak of 121 TFLOP/s". */
  leastBasis: string;
}

export interface TimedLaunch {
  mode: TimingModeName;
}

/**
 * A time below this share of the bound is too short. The share is below 1 because clocks boost above the data sheet's.
 */
const PLAUSIBLE_SHARE = 0.95;

/**
 * The least time of a launch: the longer of the time for all operations at fp16's tensor peak, which a kernel may use
 * for every dtype, and the time to read at full bandwidth the bytes that must come from device memory. undefined if the
 * device's rates are unknown.
 */
export function leastTime(device: Device, timed: ProblemCase, launch: TimedLaunch): LeastTime | undefined {
  const sheet = device.simulated ? undefined : findDataSheet(device.name);
  if (!sheet) return undefined;
  const { flops } = timed;
  const bytes = leastReadBytes(timed, { ...launch, l2Bytes: Number(device.l2Bytes) });
  const arithmetic = {
    leastUs: flops / (sheet.fp16TensorTflops * 1e6),
    leastBasis: `${scaled(flops, 'FLOP')} at the tensor peak of ${sheet.fp16TensorTflops} TFLOP/s`,
  };
  const traffic = {
    leastUs: bytes / (sheet.memoryGbPerSecond * 1e3),
    leastBasis: `${scaled(bytes, 'B')} to read from device memory at ${sheet.memoryGbPerSecond} GB/s`,
  };
  return arithmetic.leastUs >= traffic.leastUs ? arithmetic : traffic;
}

/**
 * Bytes of the inputs that a launch cannot find in L2. Outputs are left out, because their stores may still be in L2
 * when the launch ends. Rows that the problem's `work` leaves out, such as keys before a window, are left out too.
 * Cold: all bytes, because L2 was flushed. Hot: the previous launches can leave at most as much as fits into L2, under
 * any replacement policy.
 */
export function leastReadBytes(
  { tensors, bytes }: Pick<ProblemCase, 'tensors' | 'bytes'>,
  { mode, l2Bytes }: TimedLaunch & { l2Bytes: number },
): number {
  const sized = (direction: 'in' | 'out'): number =>
    tensors.filter((tensor) => tensor.direction === direction).reduce((sum, each) => sum + bytesOfTensor(each), 0);
  const reads = Math.max(0, Math.min(sized('in'), bytes - sized('out')));
  return mode === 'cold' ? reads : Math.max(0, reads - l2Bytes);
}

export type TimedResult = Pick<BenchmarkResult, 'latency' | 'leastUs' | 'leastBasis'>;

export const isImplausible = ({ latency, leastUs }: TimedResult): boolean =>
  latency !== undefined && leastUs !== undefined && latency.p50Us < PLAUSIBLE_SHARE * leastUs;

/** For example "2.19 us, and the work takes 69.5 us at least (68.7 GFLOP at the tensor peak of 989 TFLOP/s)". */
export const implausibleText = ({ latency, leastUs, leastBasis }: TimedResult): string =>
  `${latency!.p50Us.toPrecision(3)} us, and the work takes ${leastUs!.toPrecision(3)} us at least (${leastBasis!})`;

const PREFIXES = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
] as const;

function scaled(value: number, unit: string): string {
  const [factor, prefix] = PREFIXES.find(([least]) => value >= least) ?? PREFIXES[2];
  return `${(value / factor).toPrecision(3)} ${prefix}${unit}`;
}
