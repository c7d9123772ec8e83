import type { SeededInput, Candidate } from './launchable.ts';

/** Runs a candidate once on the emulator's PTX engine and counts what it does. */
export interface CountRequest {
  type: 'count';
  candidate: Candidate;
  input: SeededInput;
  /** The GPU that a few CTAs are walked for as well, step by step. */
  filling?: Filling | undefined;
}

/** How a launch fills a GPU. */
export interface Filling {
  ctas: number;
  multiprocessors: number;
  /** CTAs that one multiprocessor holds at a time, at least 1. */
  residents: number;
  /** Of a thread, after ptxas. */
  registers: number;
}

export interface CountReport {
  launches: LaunchCounts[];
  /** Of the multiprocessor that has most to do; undefined: not asked for, or see noCycles. */
  cycles?: number | undefined;
  /** Why the model has none. */
  noCycles?: string | undefined;
}

/** What a launch did, by the emulator's names (libs/emulator/ptx/counters.cpp); what is 0 is absent. */
export interface LaunchCounts {
  entry: string;
  blocks: number;
  counts: Record<string, number>;
  /** By "flashcore_v6.cu:43". */
  lines: Record<string, Record<string, number>>;
}

/** What profile-once.ts reads from its file: a program of its own, for a profiler to be wrapped around. */
export interface ProfileOnceJob {
  library: string;
  deviceOrdinal: number;
  candidate: Candidate;
  seed: string;
  /** Runs of all launches: the last one is profiled, those before it warm the caches. */
  runs: number;
  /**
   * Everything but the module is made ready, and nothing loaded or launched before this file is there; what it says is
   * the image as JSON then, in place of the candidate's.
   */
  waitFor?: string;
  /** This file is made when the last launch has ended, and nothing of the device is used any more. */
  done?: string;
}
