/**
 * How long a kernel would take on a device that nobody has measured it on: bounds from data sheets and from a
 * measurement on another device. An estimate, never a result.
 */
import type { DataSheet } from './devices.ts';

/**
 * What the units of an SM do in a cycle: NVIDIA's Ada and Hopper tuning guides and the CUDA programming guide's table
 * of arithmetic throughput (sm_89 and sm_90 agree).
 */
const FMA_FLOPS_PER_CYCLE = 256;
const EXP2_PER_CYCLE = 16;

/** A device as its data sheet has it, at the clock that its peak is quoted for. */
export interface EstimatedDevice extends Pick<DataSheet, 'multiprocessors' | 'fp16TensorTflops'> {
  readonly clockMhz: number;
}

/** What one launch asks of an SM. */
export interface LaunchWork {
  readonly ctas: number;
  /** Resident at once on an SM, by registers, shared memory and threads. */
  readonly ctasPerSm: number;
  /** Of QK^T and PV. */
  readonly flops: number;
  /** Of `flops` on tensor cores, 0 to 1; the rest are fused multiply-adds. */
  readonly tensorShare: number;
  /** Weights of the softmax: one ex2 each. */
  readonly exponentials: number;
}

/** The same kernel on a device that it was measured on. */
export interface MeasuredLaunch {
  readonly us: number;
  readonly clockMhz: number;
  readonly multiprocessors: number;
  readonly ctas: number;
  /** Start and end of a launch that do not grow with its work, microseconds. */
  readonly launchUs: number;
  /**
   * Busiest pipe or issue slots of an SM, percent of the cycles in which it was active (ncu
   * sm__instruction_throughput).
   */
  readonly busyPercent: number;
}

export interface Estimate {
  readonly lowUs: number;
  readonly highUs: number;
  /** What bounds `lowUs`. */
  readonly limiter: string;
  /** CTAs of the SM that has most. */
  readonly ctasOnBusiestSm: number;
  /** Microseconds of that SM's work on each unit, and of its CTAs' own latency. */
  readonly terms: Readonly<Record<'tensor cores' | 'FMA units' | 'exponentials' | 'instructions' | 'latency', number>>;
}

/**
 * Bounds for a launch whose operands lie in L2. The SM with most CTAs, n = ceil(CTAs / SMs), sets the time:
 *   units          n CTAs' FLOPs and exponentials at the SM's rate; tensor rate = peak / (SMs x clock)
 *   instructions   the measured busy cycles of a CTA's share of an SM, which both devices issue alike
 *   latency        a CTA alone takes the measured cycles whatever the device; n of them take ceil(n / resident) times
 * that
 * low:  launch + the largest of these: co-resident CTAs overlap without loss.
 * high: launch + n CTAs one after the other: they do not overlap at all. Cycles are scaled by the clocks, and by FLOPs
 * a CTA where the two devices get other tiles.
 * Not in it: L2 bandwidth and latency, which no data sheet has; a power limit that takes the clock down.
 */
export function estimateLatency(device: EstimatedDevice, work: LaunchWork, measured: MeasuredLaunch): Estimate {
  const most = Math.ceil(work.ctas / device.multiprocessors);
  const share = most / work.ctas;
  const usOf = (cycles: number) => cycles / device.clockMhz; // cycles over MHz
  const tensorFlopsPerCycle = (device.fp16TensorTflops * 1e6) / (device.multiprocessors * device.clockMhz);

  const measuredMost = Math.ceil(measured.ctas / measured.multiprocessors);
  const largerCta = measured.ctas / work.ctas; // FLOPs of a CTA here over FLOPs of one there
  const measuredCycles = (measured.us - measured.launchUs) * measured.clockMhz;
  const busyCyclesOfCta = (measuredCycles * measured.busyPercent * largerCta) / 100 / measuredMost;
  // Where the measured SMs held several CTAs at once, what they took together is what one takes at most.
  const latencyOfCta = measuredCycles * largerCta;
  const terms = {
    'tensor cores': usOf((work.flops * work.tensorShare * share) / tensorFlopsPerCycle),
    'FMA units': usOf((work.flops * (1 - work.tensorShare) * share) / FMA_FLOPS_PER_CYCLE),
    exponentials: usOf((work.exponentials * share) / EXP2_PER_CYCLE),
    instructions: usOf(busyCyclesOfCta * most),
    latency: usOf(latencyOfCta * Math.ceil(most / Math.max(work.ctasPerSm, measuredMost))),
  };
  const [limiter, least] = Object.entries(terms).reduce((a, b) => (b[1] > a[1] ? b : a));
  const oneAfterTheOther = usOf(latencyOfCta * Math.ceil(most / measuredMost));
  return {
    lowUs: measured.launchUs + least,
    highUs: measured.launchUs + Math.max(least, oneAfterTheOther),
    limiter,
    ctasOnBusiestSm: most,
    terms,
  };
}
