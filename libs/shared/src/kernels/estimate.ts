/**
 * Estimates how long a kernel would take on a device on which nobody has measured it. The bounds come from data sheets
 * and from a measurement on another device. The result is an estimate and never used as a measurement.
 */
import type { DataSheet } from './devices.ts';

/**
 * Operations of an SM's units per cycle, from NVIDIA's Ada and Hopper tuning guides and the CUDA programming guide's
 * table of arithmetic throughput (sm_89 and sm_90 agree).
 */
const FMA_FLOPS_PER_CYCLE = 256;
const EXP2_PER_CYCLE = 16;

/** A device from its data sheet, at the clock for which its peak is quoted. */
export interface EstimatedDevice extends Pick<DataSheet, 'multiprocessors' | 'fp16TensorTflops'> {
  readonly clockMhz: number;
}

/** The work of one launch. */
export interface LaunchWork {
  readonly ctas: number;
  /** CTAs resident on an SM at once, limited by registers, shared memory and threads. */
  readonly ctasPerSm: number;
  /** FLOPs of QK^T and PV. */
  readonly flops: number;
  /** Share of `flops` on tensor cores, 0 to 1; the rest are fused multiply-adds. */
  readonly tensorShare: number;
  /** Number of softmax weights; each needs one ex2. */
  readonly exponentials: number;
}

/** The same kernel on a device on which it was measured. */
export interface MeasuredLaunch {
  readonly us: number;
  readonly clockMhz: number;
  readonly multiprocessors: number;
  readonly ctas: number;
  /** Start and end of a launch, which do not grow with its work, in microseconds. */
  readonly launchUs: number;
  /**
   * Use of an SM's busiest pipe or issue slots, in percent of the cycles in which the SM was active (ncu
   * sm__instruction_throughput).
   */
  readonly busyPercent: number;
}

export interface Estimate {
  readonly lowUs: number;
  readonly highUs: number;
  /** The term that bounds `lowUs`. */
  readonly limiter: string;
  /** CTAs on the SM that has the most. */
  readonly ctasOnBusiestSm: number;
  /** Microseconds of that SM's work on each unit, and of the latency of its CTAs. */
  readonly terms: Readonly<Record<'tensor cores' | 'FMA units' | 'exponentials' | 'instructions' | 'latency', number>>;
}

/**
 * Bounds for a launch whose operands are in L2. The SM with the most CTAs, n = ceil(CTAs / SMs), sets the time:
 *   units          FLOPs and exponentials of n CTAs at the SM's rate; tensor rate = peak / (SMs x clock)
 *   instructions   the measured busy cycles of a CTA's share of an SM; both devices issue at the same rate
 *   latency        a single CTA takes the measured cycles on any device; n CTAs take ceil(n / resident) times as long
 * low:  launch + the largest of these terms, if co-resident CTAs overlap without loss.
 * high: launch + n CTAs one after the other, if they do not overlap at all.
 * Cycles are scaled by the clocks, and by the FLOPs per CTA if the tiles differ between the devices.
 * Not modeled: L2 bandwidth and latency, which no data sheet has, and a power limit that lowers the clock.
 */
export function estimateLatency(device: EstimatedDevice, work: LaunchWork, measured: MeasuredLaunch): Estimate {
  const most = Math.ceil(work.ctas / device.multiprocessors);
  const share = most / work.ctas;
  const usOf = (cycles: number) => cycles / device.clockMhz; // cycles divided by MHz
  const tensorFlopsPerCycle = (device.fp16TensorTflops * 1e6) / (device.multiprocessors * device.clockMhz);

  const measuredMost = Math.ceil(measured.ctas / measured.multiprocessors);
  const largerCta = measured.ctas / work.ctas; // FLOPs of a CTA here divided by FLOPs of a CTA there
  const measuredCycles = (measured.us - measured.launchUs) * measured.clockMhz;
  const busyCyclesOfCta = (measuredCycles * measured.busyPercent * largerCta) / 100 / measuredMost;
  // If the measured SMs held several CTAs at once, one CTA takes at most as long as all of them took together.
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
