import type { DevicePointer } from '../driver/cuda-driver.ts';
import type { NoiseSource } from './judge-kernels.ts';
import type { Regions } from './pool-memory.ts';

/** An output of a graph's launches, and where each launch had its buffers. */
export interface CheckedOutput {
  name: string;
  outputs: Regions;
  /** For judge.cu: a launch's region of the outputs, then its place(). */
  places: DevicePointer;
  launches: number;
  tolerance: { absolute: number; relative: number };
}

/** Makes the inputs of a graph's launches, and knows what is right for them. */
export interface LaunchInputs {
  /** Names of the inputs, in the order in which changes are counted. */
  readonly names: readonly string[];
  /** Drawn values that noise is made of. */
  readonly noise: NoiseSource;
  /** The memory that inputs lie in. */
  readonly guarded: readonly Regions[];
  /** Where each of so many launches finds its inputs: other places with every call. */
  arrange(launches: number): readonly (readonly number[])[];
  addressesAt(place: readonly number[]): Record<string, DevicePointer>;
  /** New inputs, which a secret number decides. */
  write(key: bigint): void;
  /** Counts elements that are no longer what was written. */
  checkInputs(): void;
  /**
   * Compares one output of all launches. The answers come to the device only now, and are gone from it before another
   * launch runs.
   */
  checkOutput(checked: CheckedOutput): void;
}
