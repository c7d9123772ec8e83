import { randomInt } from 'node:crypto';
import type { ElementDtype } from '@flashcore/shared/kernels';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';

const GUARD_BYTES = 4096;
/** A GPU maps memory in pages of this size. The unused rest of a page could keep data from launch to launch. */
const PAGE_BYTES = 2 * 1024 ** 2;
const ALIGNMENT = 256;

/** Regions of memory, each with guard bytes around a payload. */
export interface Regions {
  memory: DevicePointer;
  regions: number;
  stride: number;
  before: number;
  payload: number;
  initial?: { bytes: 1 | 2 | 4; bits: number } | undefined;
}

export const regionOf = ({ memory, stride, before }: Regions, region: number): DevicePointer =>
  memory + BigInt(region * stride + before);

/** Memory that launches must not change. */
export interface KeptMemory {
  address: DevicePointer;
  bytes: number;
}

/** Device memory of a pool, freed all at once. On a GPU its pages contain no other memory. */
export class PoolMemory {
  readonly #driver: CudaDriver;
  readonly #allocations: DevicePointer[] = [];
  readonly #kept: KeptMemory[] = [];

  constructor(driver: CudaDriver) {
    this.#driver = driver;
  }

  /** The uploaded values, and the ends of all pages. */
  get kept(): readonly KeptMemory[] {
    return this.#kept;
  }

  allocate(bytes: number): DevicePointer {
    const { address, bytes: whole } = this.#allocatePages(bytes);
    const used = Math.ceil(bytes / 4) * 4;
    if (whole > used) this.#kept.push({ address: address + BigInt(used), bytes: whole - used });
    return address;
  }

  #allocatePages(bytes: number): KeptMemory {
    const whole = this.#driver.facts.simulated ? bytes : Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
    const address = this.#driver.allocate(whole);
    this.#allocations.push(address);
    return { address, bytes: whole };
  }

  /** Uploads values into memory that launches must not change. */
  uploaded(values: NodeJS.ArrayBufferView): DevicePointer {
    return this.uploadedLists([[values]])[0]!;
  }

  /**
   * Uploads several lists of values, each list from an aligned address on. One allocation has all of them, because each
   * allocation costs a checksum per sample.
   */
  uploadedLists(lists: readonly (readonly NodeJS.ArrayBufferView[])[]): DevicePointer[] {
    let bytes = 0;
    const offsets = lists.map((parts) => {
      const offset = bytes;
      bytes += aligned(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
      return offset;
    });
    const pages = this.#allocatePages(bytes);
    const { address } = pages;
    this.#driver.fill8(address, 0, bytes);
    for (const [index, parts] of lists.entries()) {
      let offset = offsets[index]!;
      for (const part of parts) {
        this.#driver.upload(address + BigInt(offset), part);
        offset += part.byteLength;
      }
    }
    this.#kept.push(pages);
    return offsets.map((offset) => address + BigInt(offset));
  }

  /**
   * Allocates regions with guard bytes around each payload. On the emulator a payload ends where its memory ends, so
   * the guard page names the thread of the very first access beyond it.
   */
  regions(regions: number, payload: number): Regions {
    const after = this.#driver.facts.simulated ? 0 : GUARD_BYTES;
    const rounded = Math.ceil(Math.max(payload, 4) / 4) * 4;
    const stride = after === 0 && regions === 1 ? GUARD_BYTES + rounded : aligned(GUARD_BYTES + rounded + after);
    return { memory: this.allocate(regions * stride), regions, stride, before: GUARD_BYTES, payload: rounded };
  }

  free(): void {
    for (const address of this.#allocations) this.#driver.free(address);
    this.#allocations.length = 0;
  }
}

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Shuffles `values` in place, in an unpredictable order. */
export function shuffled<Value>(values: Value[]): Value[] {
  for (let left = values.length - 1; left > 0; --left) {
    const other = randomInt(left + 1);
    [values[left], values[other]] = [values[other]!, values[left]!];
  }
  return values;
}

/** Drawn values from which noise is made. */
export interface NoiseSource {
  base: DevicePointer;
  bytes: number;
  dtype: ElementDtype;
}

/** An output of a graph's launches, with the buffer places of each launch. */
export interface CheckedOutput {
  name: string;
  outputs: Regions;
  /** A table for judge.cu: for each launch its region of `outputs`, then the places of its inputs from arrange(). */
  places: DevicePointer;
  launches: number;
  tolerance: { absolute: number; relative: number };
  /** How many times its rounding an element may be off, if rounding explains errors beyond the tolerance. */
  explained: number;
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
  /** Selects the drawn values for later inputs: 0 for the usual ones, N(0, 1), or a trial's number. */
  use(drawn: number): void;
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
