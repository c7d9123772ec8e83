import {
  TRITON_SCRATCH_ARGUMENTS,
  type Distribution,
  type LaunchPlan,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';

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
  /** Draw inputs and compute answers for this smaller case only, then repeat them along axes of independent work. */
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

/** No manifest can have a workspace of this name, because it is not an identifier. */
const SCRATCH = "Triton's scratch memory";

/**
 * The plan with the scratch memory that the compiled code asks for: a workspace, passed as the first of the two
 * pointers that Triton adds to the arguments.
 */
export function withScratch(plan: LaunchPlan, image: DeviceImage): LaunchPlan {
  if (typeof image === 'string') return plan;
  const needed = plan.launches.map(({ entry, grid }) => {
    const found = entryOf(image, entry);
    const bytes = typeof found === 'object' ? (found.scratchBytes ?? 0) : 0;
    return bytes * grid.reduce((product, extent) => product * extent, 1);
  });
  const most = Math.max(...needed);
  if (most === 0) return plan;
  const launches = plan.launches.map((launch, index) => {
    const at = launch.arguments.length - TRITON_SCRATCH_ARGUMENTS;
    const scratch = { kind: 'workspace', name: SCRATCH } as const;
    return needed[index] === 0 ? launch : { ...launch, arguments: launch.arguments.with(at, scratch) };
  });
  return { ...plan, launches, workspace: [...plan.workspace, { name: SCRATCH, bytes: most }] };
}
