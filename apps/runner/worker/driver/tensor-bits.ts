/** Tensors as bit patterns, and their values. */
import {
  DTYPE_BYTES,
  bfloatBits,
  type ElementDtype,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';

/** Bit patterns: 16 bits for fp16 and bf16, 32 bits for fp32 and int32. */
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

/** Outputs are never integers. */
export type OutputExtent = TensorExtent & { readonly dtype: TensorDtype };

const isOutput = (tensor: TensorExtent): tensor is OutputExtent =>
  tensor.direction === 'out' && tensor.dtype !== 'int32';

/** Lists the outputs of a case in the problem's order. Throws if the problem has none. */
export function outputsOf({ problem, tensors }: ProblemCase): [OutputExtent, ...OutputExtent[]] {
  const [first, ...rest] = tensors.filter(isOutput);
  if (!first) throw new Error(`${problem} has no output`);
  return [first, ...rest];
}

/** The case's first output. */
export const outputOf = (of: ProblemCase): OutputExtent => outputsOf(of)[0];

/** A separate ArrayBuffer, because V8 may move small arrays while another thread reads them. */
export const emptyBits = (elements: number, dtype: ElementDtype): TensorBits => {
  const buffer = new ArrayBuffer(elements * DTYPE_BYTES[dtype]);
  return DTYPE_BYTES[dtype] === 4 ? new Uint32Array(buffer) : new Uint16Array(buffer);
};

/** Rounds values to the dtype, ties to even. */
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

/** Returns a function that gives an element's value by its index. */
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

/** The value of an element that was filled with this 16-bit pattern. */
export const filledElement = (word: number, dtype: ElementDtype): number =>
  DTYPE_BYTES[dtype] === 4 ? (word * 0x10001) >>> 0 : word;
