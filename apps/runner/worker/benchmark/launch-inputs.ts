import type { DevicePointer } from '../driver/cuda-driver.ts';
import type { NoiseSource } from './judge-kernels.ts';
import type { Regions } from './pool-memory.ts';

/** An output of a graph's launches, with the buffer places of each launch. */
export interface CheckedOutput {
  name: string;
  outputs: Regions;
  /** For judge.cu: each launch's region of the outputs, then its place(). */
  places: DevicePointer;
  launches: number;
  tolerance: { absolute: number; relative: number };
}

/** Makes the inputs of a graph's launches and knows the right outputs for them. */
export interface LaunchInputs {
  /** Names of the inputs, in the order in which changes are counted. */
  readonly names: readonly string[];
  /** Drawn values from which noise is made. */
  readonly noise: NoiseSource;
  /** The memory that holds the inputs. */
  readonly guarded: readonly Regions[];
  /** The places of each launch's inputs; every call returns different places. */
  arrange(launches: number): readonly (readonly number[])[];
  addressesAt(place: readonly number[]): Record<string, DevicePointer>;
  /** Writes new inputs, determined by a secret number. */
  write(key: bigint): void;
  /** Counts input elements that have changed since they were written. */
  checkInputs(): void;
  /**
   * Compares one output of all launches. The answers are uploaded only now, and are erased from the device before
   * another launch runs.
   */
  checkOutput(checked: CheckedOutput): void;
}
