import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import type { BufferAddresses } from '../driver/arguments.ts';
import {
  emptyBits,
  filledElement,
  fromMemory,
  inMemory,
  outputsOf,
  type TensorBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import {
  DTYPE_BYTES,
  type Fill,
  type ElementDtype,
  type LaunchPlan,
  type TensorExtent,
  bytesOfTensor,
  elementsOfTensor,
} from '@flashcore/shared/kernels';
import { bytesText, entryOf } from '@flashcore/shared/text';

/** Guard bytes before a buffer, and after it on a GPU. */
const GUARD_BYTES = 4096;
/**
 * The guards' byte in the first and in the second run. 0xff makes a NaN in every dtype, so a result that depends on
 * memory beyond a tensor differs.
 */
export const GUARDS = [0xa5, 0xff] as const;
const GUARD_OF = Object.fromEntries(GUARDS.map((byte) => [byte, Buffer.alloc(GUARD_BYTES, byte)]));
/** Alignment of a buffer in a shared allocation, as cuMemAlloc's own. */
const ALIGNMENT = 512;
/** An address farther than this from every buffer is not related to any of them. */
const NEAR_BYTES = 1n << 24n;

interface GuardedBuffer {
  name: string;
  base: DevicePointer;
  address: DevicePointer;
  bytes: number;
  bytesAfter: number;
  /** Undefined: a workspace. */
  dtype?: ElementDtype | undefined;
  /** Initial value before each run; undefined: poison. */
  initial?: Fill | undefined;
}

export interface BufferOptions {
  /** false: allocations have no guard bytes, as memory checkers require. */
  guarded?: boolean;
}

/** Bytes read back only to be compared. They are kept, because fresh pages cost more than the copy from the device. */
let readBack = Buffer.alloc(0);
const MOST_KEPT_BYTES = 2 ** 26;

/** The tensors and workspaces of a plan on the device, each between guard bytes. */
export class RunBuffers {
  readonly addresses: BufferAddresses;
  readonly #driver: CudaDriver;
  readonly #plan: LaunchPlan;
  readonly #buffers: GuardedBuffer[] = [];
  readonly #allocations: DevicePointer[] = [];
  readonly #guardBytes: number;
  /** Where the next buffer begins in the allocation that all of them share; undefined if each has its own. */
  #next: DevicePointer | undefined;
  #guard: number = GUARDS[0];

  constructor(driver: CudaDriver, plan: LaunchPlan, { guarded = true }: BufferOptions = {}) {
    this.#driver = driver;
    this.#guardBytes = guarded ? GUARD_BYTES : 0;
    this.#plan = plan;
    // One allocation, because cuMemAlloc and cuMemFree take milliseconds while ncu prepares to profile.
    if (guarded && !driver.facts.simulated) {
      const sizes = [...plan.tensors.map(bytesOfTensor), ...plan.workspace.map(({ bytes }) => bytes)];
      this.#next = this.#allocated(sizes.reduce((sum, bytes) => sum + this.#extentOf(bytes), 0));
    }
    const tensors = Object.fromEntries(
      plan.tensors.map((tensor) => {
        const initial = plan.initialOutputs && entryOf(plan.initialOutputs, tensor.name);
        return [tensor.name, this.#allocate(tensor.name, bytesOfTensor(tensor), { initial, dtype: tensor.dtype })];
      }),
    );
    const workspace = new Map(
      plan.workspace.map(({ name, bytes: size, initial }) => [name, this.#allocate(name, size, { initial })] as const),
    );
    for (const { name, bytes: size } of plan.workspace) driver.markMemory(workspace.get(name)!, size, 'workspace');
    this.addresses = { tensors, workspace };
    this.guard(GUARDS[0]);
  }

  /** Fills the guards with a byte. */
  guard(value: number): void {
    this.#guard = value;
    for (const buffer of this.#buffers) {
      this.#driver.fill8(buffer.base, value, this.#guardBytes);
      this.#driver.fill8(buffer.address + BigInt(buffer.bytes), value, buffer.bytesAfter);
    }
  }

  // The emulator's allocations end at a guard page, which names the thread of the very first access beyond the end.
  // Guard bytes after the buffer would only hide that access.
  #allocate(name: string, bytes: number, rest: Pick<GuardedBuffer, 'initial' | 'dtype'>): DevicePointer {
    const bytesBefore = this.#guardBytes;
    const bytesAfter = this.#driver.facts.simulated ? 0 : bytesBefore;
    const base = this.#next ?? this.#allocated(bytesBefore + Math.max(bytes, 1) + bytesAfter);
    if (this.#next !== undefined) this.#next += BigInt(this.#extentOf(bytes));
    const address = base + BigInt(bytesBefore);
    this.#driver.markMemory(base, bytesBefore, 'guard');
    this.#buffers.push({ name, base, address, bytes, bytesAfter, ...rest });
    return address;
  }

  /** Bytes of a buffer with its guards in a shared allocation. */
  #extentOf(bytes: number): number {
    return Math.ceil((2 * this.#guardBytes + bytes) / ALIGNMENT) * ALIGNMENT;
  }

  #allocated(bytes: number): DevicePointer {
    const address = this.#driver.allocate(bytes);
    this.#allocations.push(address);
    return address;
  }

  upload(inputs: TensorsByName): void {
    for (const [tensor, values] of this.#inputs(inputs))
      this.#driver.upload(this.#addressOf(tensor), inMemory(values, tensor));
  }

  /**
   * Fills outputs and workspaces with a NaN pattern, so that a value that is read before it is written shows in an
   * output. Outputs of int8, which has no NaN, get the pattern's lower byte. Buffers with an initial value get that
   * value instead.
   */
  poison(bits: number): void {
    const written = new Set([...outputsOf(this.#plan).map(({ name }) => name), ...this.addresses.workspace.keys()]);
    for (const { name, address, bytes, initial, dtype = 'fp16' } of this.#buffers)
      if (!initial && written.has(name)) {
        const size = DTYPE_BYTES[dtype] === 1 ? 1 : 2;
        const pattern = size === 1 ? filledElement(bits, dtype) : bits;
        this.#driver.fill(address, { bytes: size, bits: pattern }, Math.floor(bytes / size));
        this.#driver.markMemory(address, bytes, 'unwritten');
      }
    this.initialize();
  }

  /** Gives outputs and workspaces their initial values, in stream order. */
  initialize(): void {
    for (const { address, bytes, initial } of this.#buffers)
      if (initial) this.#driver.fill(address, initial, Math.floor(bytes / initial.bytes));
  }

  /** Downloads the outputs, by name. */
  outputs(): TensorsByName {
    return Object.fromEntries(outputsOf(this.#plan).map((output) => [output.name, this.#downloaded(output)]));
  }

  #downloaded(tensor: TensorExtent): TensorBits {
    const values = emptyBits(elementsOfTensor(tensor), tensor.dtype);
    this.#driver.download(values, this.#addressOf(tensor));
    return fromMemory(values, tensor);
  }

  #addressOf({ name }: TensorExtent): DevicePointer {
    const address = entryOf(this.addresses.tensors, name);
    if (address === undefined) throw new Error(`no buffer was allocated for ${name}`);
    return address;
  }

  /** The plan's inputs with their values. Errors: RangeError if the number of values is wrong. */
  #inputs(inputs: TensorsByName): (readonly [TensorExtent, TensorBits])[] {
    return this.#plan.tensors
      .filter(({ direction }) => direction === 'in')
      .map((tensor) => {
        const values = entryOf(inputs, tensor.name);
        if (values?.length !== elementsOfTensor(tensor))
          throw new RangeError(
            `${tensor.name} has ${elementsOfTensor(tensor)} elements, got ${values?.length ?? 'none'}`,
          );
        return [tensor, values] as const;
      });
  }

  /** Names of the inputs and guard bytes that the kernel changed although it must not. */
  modified(inputs: TensorsByName): string[] {
    const found: string[] = [];
    for (const [tensor, values] of this.#inputs(inputs)) {
      const wanted = bytesOf(inMemory(values, tensor));
      const now = spaceFor(wanted.length);
      this.#driver.download(now, this.#addressOf(tensor));
      if (!now.equals(wanted)) found.push(tensor.name);
    }
    for (const buffer of this.#buffers) {
      if (!this.#intact(buffer.base, this.#guardBytes)) found.push(`guard bytes before ${buffer.name}`);
      if (!this.#intact(buffer.address + BigInt(buffer.bytes), buffer.bytesAfter))
        found.push(`guard bytes after ${buffer.name}`);
    }
    return found;
  }

  #intact(address: DevicePointer, bytes: number): boolean {
    if (bytes === 0) return true;
    const guard = spaceFor(bytes);
    this.#driver.download(guard, address);
    return guard.equals(GUARD_OF[this.#guard]!.subarray(0, bytes));
  }

  /** Describes an address of a fault, for example "16 bytes past the end of O"; undefined if no buffer is near. */
  nameOf(address: bigint): string | undefined {
    let nearest: { text: string; distance: bigint } | undefined;
    for (const { name, address: start, bytes } of this.#buffers) {
      const end = start + BigInt(bytes);
      if (address >= start && address < end) return `${name} + ${bytesText(address - start)}`;
      const past = address >= end;
      const distance = past ? address - end : start - address;
      if (distance > NEAR_BYTES || (nearest && nearest.distance <= distance)) continue;
      nearest = { text: past ? pastEnd(name, distance) : `${bytesText(distance)} before ${name}`, distance };
    }
    return nearest?.text;
  }

  free(): void {
    for (const address of this.#allocations) this.#driver.free(address);
    this.#allocations.length = 0;
    this.#buffers.length = 0;
  }
}

function spaceFor(bytes: number): Buffer {
  if (bytes > MOST_KEPT_BYTES) return Buffer.allocUnsafe(bytes);
  if (readBack.length < bytes) readBack = Buffer.alloc(bytes);
  return readBack.subarray(0, bytes);
}

const pastEnd = (name: string, distance: bigint): string =>
  distance === 0n ? `the first byte past the end of ${name}` : `${bytesText(distance)} past the end of ${name}`;

function bytesOf(words: TensorBits): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength);
}
