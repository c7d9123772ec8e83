import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import type { BufferAddresses } from '../driver/arguments.ts';
import { elementsOf, type AttentionInputs, type HalfBits } from '../driver/reference.ts';
import type { LaunchPlan, ShapeFields } from '@flashcore/shared/kernels';

/** Guard bytes before a buffer, and after it on a GPU. */
const GUARD_BYTES = 4096;
/**
 * Bytes of the guards, one value a run: the second is a NaN as fp16, so that what depends on memory beyond a tensor
 * differs.
 */
export const GUARDS = [0xa5, 0x7e] as const;
const HALF_BYTES = 2;
/** An address farther from every buffer has nothing to do with them. */
const NEAR_BYTES = 1n << 24n;

interface GuardedBuffer {
  name: string;
  base: DevicePointer;
  address: DevicePointer;
  bytes: number;
  bytesAfter: number;
}

/** Q, K, V, O and the workspace of one shape on the device, each between guard bytes. */
export interface BufferOptions {
  /**
   * Whose tensors are used, so that two builds have theirs at the same addresses; it must outlive this. Its workspace
   * stays its own.
   */
  lender?: RunBuffers | undefined;
  /** false: allocations are the buffers alone, as a memory checker wants them. */
  guarded?: boolean;
}

export class RunBuffers {
  readonly addresses: BufferAddresses;
  readonly #driver: CudaDriver;
  readonly #elements: number;
  readonly #buffers: GuardedBuffer[] = [];
  readonly #lender: RunBuffers | undefined;
  readonly #guardBytes: number;
  #guard: number = GUARDS[0];

  constructor(
    driver: CudaDriver,
    shape: ShapeFields,
    plan: LaunchPlan,
    { lender, guarded = true }: BufferOptions = {},
  ) {
    this.#driver = driver;
    this.#guardBytes = guarded ? GUARD_BYTES : 0;
    this.#elements = elementsOf(shape);
    const bytes = this.#elements * HALF_BYTES;
    this.#lender = lender;
    const tensors = lender?.addresses.tensors ?? {
      Q: this.#allocate('Q', bytes),
      K: this.#allocate('K', bytes),
      V: this.#allocate('V', bytes),
      O: this.#allocate('O', bytes),
    };
    const workspace = new Map(
      plan.workspace.map(({ name, bytes: size }) => [name, this.#allocate(name, size)] as const),
    );
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

  // The emulator's allocations end at a guard page, which names the thread of the very first access beyond: guard bytes
  // would only hide it.
  #allocate(name: string, bytes: number): DevicePointer {
    const bytesBefore = this.#guardBytes;
    const bytesAfter = this.#driver.facts.simulated ? 0 : bytesBefore;
    const base = this.#driver.allocate(bytesBefore + Math.max(bytes, 1) + bytesAfter);
    const address = base + BigInt(bytesBefore);
    this.#driver.markMemory(base, bytesBefore, 'guard');
    this.#buffers.push({ name, base, address, bytes, bytesAfter });
    return address;
  }

  upload(inputs: AttentionInputs): void {
    for (const tensor of ['Q', 'K', 'V'] as const) this.#driver.upload(this.addresses.tensors[tensor], inputs[tensor]);
  }

  /** Fills O with a NaN pattern, and the workspace with it too: what is read before it was written then shows in O. */
  poison(bits: number): void {
    this.#driver.fill16(this.addresses.tensors.O, bits, this.#elements);
    this.#driver.markMemory(this.addresses.tensors.O, this.#elements * HALF_BYTES, 'unwritten');
    for (const buffer of this.#buffers) {
      if (!this.addresses.workspace.has(buffer.name)) continue;
      this.#driver.fill16(buffer.address, bits, Math.floor(buffer.bytes / HALF_BYTES));
      this.#driver.markMemory(buffer.address, buffer.bytes, 'unwritten');
    }
  }

  output(): HalfBits {
    const output = new Uint16Array(this.#elements);
    this.#driver.download(output, this.addresses.tensors.O);
    return output;
  }

  /** What the kernel changed and must not: inputs, guard bytes. */
  modified(inputs: AttentionInputs): string[] {
    const found = this.#lender?.modified(inputs) ?? [];
    for (const tensor of this.#lender ? [] : (['Q', 'K', 'V'] as const)) {
      const now = new Uint16Array(this.#elements);
      this.#driver.download(now, this.addresses.tensors[tensor]);
      if (Buffer.compare(bytesOf(now), bytesOf(inputs[tensor])) !== 0) found.push(tensor);
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
    const guard = Buffer.alloc(bytes);
    this.#driver.download(guard, address);
    return guard.every((byte) => byte === this.#guard);
  }

  /** "16 bytes past the end of O", for an address that a fault names; undefined for one that is near no buffer. */
  nameOf(address: bigint): string | undefined {
    let nearest: { text: string; distance: bigint } | undefined;
    for (const { name, address: start, bytes } of this.#buffers) {
      const end = start + BigInt(bytes);
      if (address >= start && address < end) return `${name} + ${address - start} bytes`;
      const past = address >= end;
      const distance = past ? address - end : start - address;
      if (distance > NEAR_BYTES || (nearest && nearest.distance <= distance)) continue;
      nearest = { text: past ? pastEnd(name, distance) : `${distance} bytes before ${name}`, distance };
    }
    return nearest?.text;
  }

  free(): void {
    for (const buffer of this.#buffers) this.#driver.free(buffer.base);
    this.#buffers.length = 0;
  }
}

const pastEnd = (name: string, distance: bigint): string =>
  distance === 0n ? `the first byte past the end of ${name}` : `${distance} bytes past the end of ${name}`;

function bytesOf(words: HalfBits): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength);
}
