import type { SeededInput, Candidate } from './launchable.ts';

/** Runs a candidate once on the emulator's PTX engine and counts its instructions and memory accesses. */
export interface CountRequest {
  type: 'count';
  candidate: Candidate;
  input: SeededInput;
  /** If set, a few CTAs are also walked step by step for this GPU. */
  filling?: Filling | undefined;
}

/** How a launch fills a GPU. */
export interface Filling {
  ctas: number;
  multiprocessors: number;
  /** CTAs per multiprocessor at a time, at least 1. */
  residents: number;
  /** Registers per thread, as ptxas reports them. */
  registers: number;
}

export interface CountReport {
  launches: LaunchCounts[];
  /** Cycles of the busiest multiprocessor; undefined if not requested, or if noCycles gives a reason. */
  cycles?: number | undefined;
  /** Why the model has no cycles. */
  noCycles?: string | undefined;
}

/** Counts of a launch, by the emulator's names (libs/emulator/ptx/counters.cpp). Zero counts are absent. */
export interface LaunchCounts {
  entry: string;
  blocks: number;
  counts: Record<string, number>;
  /** Counts by source line, for example "flashcore_v6.cu:43". */
  lines: Record<string, Record<string, number>>;
}

/** The kernel of ProfileOnceJob's `warmUp`. */
export const WARM_UP_ENTRY = 'flashcore_clock_stamp';

/** Input file of profile-once.ts, a separate program that a profiler wraps. */
export interface ProfileOnceJob {
  library: string;
  deviceOrdinal: number;
  candidate: Candidate;
  seed: string;
  /** The library that draws N(0, 1) at a gigabyte a second; without it, a cache of a gigabyte takes half a minute. */
  referenceLibrary?: string;
  /** Number of runs of all launches. The last one is profiled; the earlier ones warm the caches. */
  runs: number;
  /** clock-stamp.cu, compiled. If set, a launch of it is profiled first, because ncu's first profile takes longest. */
  warmUp?: string;
  /**
   * The program prepares everything except the module, then waits for this file before it loads or launches anything.
   * The file contains the image as JSON, which replaces the candidate's image.
   */
  waitFor?: string;
  /** Created when the last launch has ended and the device is no longer used. */
  done?: string;
}

/** Checks counts from the executor: only names and numbers are accepted. */
export function launchCounts(json: unknown): LaunchCounts[] {
  if (!Array.isArray(json)) throw new TypeError('must be an array of launches');
  return json.map((launch: unknown) => {
    const { entry, blocks, counts, lines } = record(launch);
    if (typeof entry !== 'string' || typeof blocks !== 'number') throw new TypeError('must be a launch with its entry');
    return {
      entry,
      blocks,
      counts: numbers(counts),
      lines: Object.fromEntries(Object.entries(record(lines)).map(([place, sums]) => [place, numbers(sums)])),
    };
  });
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('must be an object');
  return value as Record<string, unknown>;
}

function numbers(value: unknown): Record<string, number> {
  return Object.fromEntries(
    Object.entries(record(value)).map(([name, count]) => {
      if (typeof count !== 'number') throw new TypeError(`must be a number of ${name}`);
      return [name, count];
    }),
  );
}
