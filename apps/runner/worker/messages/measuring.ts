import type { DeviceConditions, StopReason, TimingMode, Plain, EnumName } from '@flashcore/shared/contract';
import type { LaunchPlan, ProblemCase } from '@flashcore/shared/kernels';
import type { Candidate, InputRule } from './launchable.ts';
import type { JudgementRules } from './verifying.ts';

/** "cold" or "hot". */
export type TimingModeName = Lowercase<EnumName<typeof TimingMode>>;

/** The stopping rule of a series of samples. */
export interface SamplingProtocol {
  minSamples: number;
  maxSamples: number;
  /** Limit per mode, without warm-up. */
  maxSeconds: number;
  warmUpMaxSeconds: number;
  /** Launches per graph in hot mode; 0: as many as take about 2 ms. */
  launchesPerSample: number;
  targetRelativeHalfWidth: number;
  /** Whether the request set maxSamples. */
  samplesAsked: boolean;
  /** Sampling ends when this many launches are checked; undefined: when the interval is narrow enough. */
  checkedLaunches?: number;
}

/**
 * Draws the inputs of the coming benchmark with the same seed and computes their answers, while the device does
 * something else.
 */
export interface DrawRequest extends Pick<BenchmarkRequest, 'seed' | 'trials' | 'ownReference'> {
  type: 'draw';
  timed: LaunchPlan;
}

/** A sample of timed launches on values other than N(0, 1). Its drawn heads or sets take the rules in turn. */
export interface Trial {
  rules: readonly InputRule[];
  /** A smaller case to draw, whose tensors are then repeated; undefined: the timed case itself is drawn. */
  repeats?: ProblemCase | undefined;
}

export interface BenchmarkRequest extends JudgementRules {
  type: 'benchmark';
  candidate: Candidate;
  modes: TimingModeName[];
  /** Seed of the heads or sets from which all inputs are made. */
  seed: string;
  /** Before anything is measured, a sample of each trial is checked. */
  trials: Trial[];
  protocol: SamplingProtocol;
  /**
   * After each batch of samples, stop, announce a turn and wait for `proceed`, because something else is measured in
   * turns with the candidate.
   */
  turns: boolean;
  /**
   * Write an input and its right outputs to this file, and give a turn before anything is timed: rivals are checked on
   * them. Undefined: no file.
   */
  drawnFile?: string | undefined;
  /** Number of launches in a plain loop with one event pair around it, at the very end; 0: no loop. */
  legacyLaunches: number;
  /** Processes of the runner, which are not reported as other processes on the device. */
  ownProcesses: number[];
}

/**
 * Times two builds in interleaved blocks A B B A, after a self-check of the champion against a second copy of itself.
 * A is the champion, B the candidate. `minSamples` applies to each build, `maxSeconds` to each of the two series.
 */
export interface CompareRequest extends Omit<BenchmarkRequest, 'type' | 'turns' | 'drawnFile' | 'legacyLaunches'> {
  type: 'compare';
  champion: Candidate;
}

/** For example "NOISE_FLOOR". */
export type StopReasonName = EnumName<typeof StopReason>;

export interface LatencyReport {
  mode: TimingModeName;
  /** Microseconds per launch, in order; 0 marks a dropped sample. */
  samplesUs: Float32Array;
  /** SM clock of each sample in MHz; 0 if unknown. */
  clocksMhz: Float32Array;
  /** How the clocks were measured, or why they are missing. */
  clockSource: string;
  /** Number of samples that were kept although their clock fell, because in turns no sample is dropped. */
  slowed: number;
  /** Number of samples of throttled batches that were kept, because in turns no sample is dropped. */
  throttled: number;
  stopReason: StopReasonName;
  launchesPerSample: number;
  /** Median of an empty event pair, microseconds. */
  eventOverheadUs: number;
  /** Covers all outputs of all launches, including warm-up. */
  outputCheck: { passed: boolean; detail: string; launches: number };
  /**
   * Mean time of the plain loop's launches in microseconds, only in the last report; undefined if no loop was
   * requested.
   */
  legacyLoopUs?: number;
  conditions: Plain<DeviceConditions>;
}

/** Samples of two builds in blocks A B B A. Each build's two samples of a block are adjacent in its array. */
export interface PairedSamples {
  /**
   * Microseconds per launch. If the device slowed down in a block, the block is dropped: its samples are negative for
   * both builds.
   */
  championUs: Float32Array;
  candidateUs: Float32Array;
  /** SM clock of each sample in MHz; 0 if unknown. */
  championMhz: Float32Array;
  candidateMhz: Float32Array;
  stopReason: StopReasonName;
}

export interface ComparisonReport extends Pick<
  LatencyReport,
  'mode' | 'launchesPerSample' | 'clockSource' | 'conditions'
> {
  /** The champion against its second copy. */
  self: PairedSamples;
  pairs: PairedSamples;
  championCheck: LatencyReport['outputCheck'];
  candidateCheck: LatencyReport['outputCheck'];
}
