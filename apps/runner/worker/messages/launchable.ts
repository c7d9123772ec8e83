import type { Distribution, LaunchPlan } from '@flashcore/shared/kernels';

/** How tensors are drawn, by their roles. */
export type InputRule = Omit<Distribution, 'about' | 'finds'>;

export interface SeededInput {
  /** Hexadecimal, up to 32 digits. */
  seed: string;
  rule: InputRule;
  /** All sequences are as long as they can be, or share a sum evenly: as work is counted. */
  evenLengths?: boolean;
}

/**
 * What a device loads of a kernel: the path of a cubin, or of the emulator's module. Where entries were compiled apart
 * from each other: that of each entry by its name; with what the code calls one that the manifest spells in C++.
 */
export type DeviceImage = string | Readonly<Record<string, string | PlacedEntry>>;

export interface PlacedEntry {
  path: string;
  symbol: string;
  /** Least dynamic shared memory of a launch, where only the compiled code tells. */
  sharedBytes?: number;
}

/** A compiled kernel and what to launch of it. */
export interface Candidate {
  image: DeviceImage;
  plan: LaunchPlan;
  /** Limit on one run of all launches; the process is killed when it is exceeded. */
  launchLimitMs: number;
}
