/** Tensors as bit patterns, and their values. */
import {
  DTYPE_BYTES,
  bfloatBits,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';

/** Bits of fp16 and bf16 in 16, of fp32 in 32. */
export type TensorBits = Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** Tensors of a case by name. */
export type TensorsByName = Readonly<Record<string, TensorBits>>;

/** A tensor seen as matrices over its last two dimensions. */
export interface Matrices {
  /** Number of matrices; for attention, batches times heads. */
  heads: number;
  rows: number;
  columns: number;
}

/** A vector becomes one matrix of one row. */
export function matricesOf({ dims }: Pick<TensorExtent, 'dims'>): Matrices {
  const columns = dims.at(-1) ?? 1;
  const rows = dims.at(-2) ?? 1;
  return { heads: dims.slice(0, -2).reduce((product, extent) => product * extent, 1), rows, columns };
}

/** Throws if the problem has no tensor of this name. */
export function tensorNamed({ problem, tensors }: ProblemCase, name: string): TensorExtent {
  const found = tensors.find((tensor) => tensor.name === name);
  if (!found) throw new Error(`${problem} has no tensor ${name}`);
  return found;
}

/** The case's output tensor; throws if there is none. */
export function outputOf({ problem, tensors }: ProblemCase): TensorExtent {
  const [output] = tensors.filter(({ direction }) => direction === 'out');
  if (!output) throw new Error(`${problem} has no output`);
  return output;
}

export const emptyBits = (elements: number, dtype: TensorDtype): TensorBits =>
  DTYPE_BYTES[dtype] === 4 ? new Uint32Array(elements) : new Uint16Array(elements);

/** Rounded to the dtype, ties to even. */
export function tensorOf(values: Float32Array<ArrayBuffer>, dtype: TensorDtype): TensorBits {
  switch (dtype) {
    case 'fp16':
      return new Uint16Array(new Float16Array(values).buffer);
    case 'bf16':
      return bfloatBits(values);
    case 'fp32':
      return new Uint32Array(values.buffer, values.byteOffset, values.length);
  }
}

/** What an element is worth, by its index. */
export function valueReader(bits: TensorBits, dtype: TensorDtype): (index: number) => number {
  if (dtype === 'bf16') {
    const word = new DataView(new ArrayBuffer(4));
    return (index) => {
      word.setUint16(0, bits[index]!);
      return word.getFloat32(0);
    };
  }
  const Values = dtype === 'fp32' ? Float32Array : Float16Array;
  const values = new Values(bits.buffer, bits.byteOffset, bits.length);
  return (index) => values[index]!;
}

/** An element that was filled with 16-bit words of this pattern. */
export const filledElement = (word: number, dtype: TensorDtype): number =>
  DTYPE_BYTES[dtype] === 4 ? (word * 0x10001) >>> 0 : word;
