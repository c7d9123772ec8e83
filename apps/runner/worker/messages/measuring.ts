import type { DeviceConditions, StopReason, TimingMode } from '@flashcore/shared/contract';
import type { Executor } from './device.ts';
import type { Candidate } from './launchable.ts';
import type { Plain, EnumName } from './plain.ts';

/** "cold" or "hot". */
export type TimingModeName = Lowercase<EnumName<typeof TimingMode>>;

/** When a series of samples ends. */
export interface SamplingProtocol {
  minSamples: number;
  maxSamples: number;
  /** Limit a mode, warm-up not counted. */
  maxSeconds: number;
  warmUpMaxSeconds: number;
  /** Launches of a graph in hot mode; 0: as many as take about 2 ms. */
  launchesPerSample: number;
  targetRelativeHalfWidth: number;
  /** The request said how many samples at most. */
  samplesAsked: boolean;
}

export interface BenchmarkRequest {
  type: 'benchmark';
  candidate: Candidate;
  modes: TimingModeName[];
  /** Of what all launches' inputs are made from. */
  seed: string;
  tolerance: { absolute: number; relative: number };
  /** Of outputs that name a tolerance, by its name. */
  ownTolerances: Readonly<Record<string, { absolute: number; relative: number }>>;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
  protocol: SamplingProtocol;
  /**
   * Stop after each batch of samples, announce a turn and wait for `proceed`: something else is measured in turns with
   * the candidate.
   */
  turns: boolean;
  /** Launches of a plain loop with one event pair around it, after all else; 0: none. */
  legacyLaunches: number;
  /** Processes on the device that are no strangers. */
  ownProcesses: number[];
}

/** Two builds in interleaved blocks A B B A; before that the champion against a second copy of itself. */
export interface CompareRequest {
  type: 'compare';
  /** A. */
  champion: Candidate;
  /** B. */
  candidate: Candidate;
  modes: TimingModeName[];
  /** Of what all launches' inputs are made from, the same for both. */
  seed: string;
  tolerance: { absolute: number; relative: number };
  /** Of outputs that name a tolerance, by its name. */
  ownTolerances: Readonly<Record<string, { absolute: number; relative: number }>>;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
  /** `minSamples` of each build, `maxSeconds` for each of the two series. */
  protocol: SamplingProtocol;
  ownProcesses: number[];
}

/** For example "NOISE_FLOOR". */
export type StopReasonName = EnumName<typeof StopReason>;

export interface LatencyReport {
  mode: TimingModeName;
  /** Microseconds a launch, in order; 0 marks a dropped one. */
  samplesUs: Float32Array;
  /** SM clock of each, MHz; 0 where it is not known. */
  clocksMhz: Float32Array;
  /** How the clocks were measured, or why they were not. */
  clockSource: string;
  /** Samples whose clock fell and that were kept, for in turns none is dropped. */
  slowed: number;
  /** Samples of batches in which the device was throttled, and that were kept for the same reason. */
  throttled: number;
  stopReason: StopReasonName;
  launchesPerSample: number;
  /** Median of an empty event pair, microseconds. */
  eventOverheadUs: number;
  /** Of all outputs of all launches, those of the warm-up too. */
  outputCheck: { passed: boolean; detail: string };
  /** Mean of a plain loop's launches, microseconds, in the last report; undefined where none was asked for. */
  legacyLoopUs?: number;
  conditions: Plain<DeviceConditions>;
}

/** Samples of two builds in blocks A B B A: the two of each build's in a block follow each other. */
export interface PairedSamples {
  /** Microseconds a launch; a block in which the device slowed down is dropped, and below zero in both. */
  championUs: Float32Array;
  candidateUs: Float32Array;
  /** SM clock of each sample, MHz; 0 where it is not known. */
  championMhz: Float32Array;
  candidateMhz: Float32Array;
  stopReason: StopReasonName;
}

export interface ComparisonReport {
  mode: TimingModeName;
  launchesPerSample: number;
  /** The champion against its second copy. */
  self: PairedSamples;
  pairs: PairedSamples;
  clockSource: string;
  championCheck: LatencyReport['outputCheck'];
  candidateCheck: LatencyReport['outputCheck'];
  conditions: Plain<DeviceConditions>;
}
