import { randomInt } from 'node:crypto';
import type { CudaDriver, DevicePointer, Handle } from '../driver/cuda-driver.ts';
import type { AttentionInputs } from '../driver/reference.ts';
import { DTYPE_BYTES, bitsOf, type ShapeFields } from '@flashcore/shared/kernels';

const MAX_MARK = 32_768;

interface FreshInputsOptions {
  shape: ShapeFields;
  inputs: AttentionInputs;
  addresses: Readonly<Record<'Q' | 'K' | 'V', DevicePointer>>;
}

/**
 * Changes a few elements of a set's inputs before a launch, so that an answer kept from an earlier one is wrong: one
 * element each of Q and K is replaced by
 * another of the same tensor, and one element of V, the mark, is made so large that every row that sees its key differs
 * by more than any tolerance. The next
 * change takes the mark back. All other elements stay, so that the data that is timed stays what was drawn.
 */
export class FreshInputs {
  readonly #driver: CudaDriver;
  readonly #shape: ShapeFields;
  readonly #inputs: AttentionInputs;
  readonly #addresses: Readonly<Record<'Q' | 'K' | 'V', DevicePointer>>;
  #mark: { index: number; before: number } | undefined;

  /** `inputs` is kept as the device's copy is. */
  constructor(driver: CudaDriver, options: FreshInputsOptions) {
    this.#driver = driver;
    this.#shape = options.shape;
    this.#inputs = options.inputs;
    this.#addresses = options.addresses;
  }

  /** In the order of the stream; four stores of one element. */
  change(stream: Handle = this.#driver.stream): void {
    for (const tensor of ['Q', 'K'] as const) {
      const values = this.#inputs[tensor];
      this.#set(tensor, randomInt(values.length), values[randomInt(values.length)]!, stream);
    }
    if (this.#mark) this.#set('V', this.#mark.index, this.#mark.before, stream);
    const index = this.#markedElement();
    this.#mark = { index, before: this.#inputs.V[index]! };
    this.#set('V', index, bitsOf(this.#markValue(), this.#inputs.dtype), stream);
  }

  #set(tensor: 'Q' | 'K' | 'V', index: number, bits: number, stream: Handle): void {
    this.#inputs[tensor][index] = bits;
    const bytes = DTYPE_BYTES[this.#inputs.dtype];
    this.#driver.fill(this.#addresses[tensor] + BigInt(index * bytes), { bytes, bits }, 1, stream);
  }

  /** Of any head, of a key that at least half of the rows see when the mask is causal. */
  #markedElement(): number {
    const { batch, heads, sequenceLength, headDim } = this.#shape;
    const key = randomInt(Math.ceil(sequenceLength / 2));
    return (randomInt(batch * heads) * sequenceLength + key) * headDim + randomInt(headDim);
  }

  // A key has a weight of about 1/S: the marked column differs by about 1/4.
  #markValue(): number {
    const size = Math.min(MAX_MARK, Math.max(8, this.#shape.sequenceLength / 4));
    return randomInt(2) === 0 ? size : -size;
  }
}
