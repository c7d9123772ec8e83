import type { Distribution, LaunchPlan, ProblemCase } from '@flashcore/shared/kernels';

/** How tensors are drawn, by role. */
export type InputRule = Omit<Distribution, 'about' | 'finds'>;

export interface SeededInput {
  /** Hexadecimal, up to 32 digits. */
  seed: string;
  rule: InputRule;
  /** Seed of the vectors that Q and K have in common; default: `seed`. */
  sharedSeed?: string;
  /**
   * Give all sequences their maximum length, or equal shares of a sum. FLOPs and bytes are counted for these lengths.
   */
  evenLengths?: boolean;
  /** Draw and answer this smaller case, and repeat its tensors along axes of independent work. */
  repeats?: ProblemCase;
}

/**
 * The file that a device loads for a kernel: the path of a cubin or of the emulator's module. If entries were compiled
 * separately, a path for each entry by name; for an entry that the manifest spells in C++, also its symbol.
 */
export type DeviceImage = string | Readonly<Record<string, string | PlacedEntry>>;

export interface PlacedEntry {
  path: string;
  symbol: string;
  /** Minimum dynamic shared memory of a launch, if only the compiled code determines it. */
  sharedBytes?: number;
  /** Scratch memory that each CTA of a launch uses, if only the compiled code determines it. */
  scratchBytes?: number;
}

/** A compiled kernel and its launch plan. */
export interface Candidate {
  image: DeviceImage;
  plan: LaunchPlan;
  /** Limit on one run of all launches; if exceeded, the process is killed. */
  launchLimitMs: number;
  /** On the emulator, how long a launch may go on without beginning another block; undefined or 0: no limit. */
  stallLimitMs?: number;
}
