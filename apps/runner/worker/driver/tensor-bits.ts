/** Tensors as bit patterns, and their values. */
import {
  DTYPE_BYTES,
  bfloatBits,
  isSmall,
  smallBits,
  smallValues,
  type ElementDtype,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';

/** Bit patterns, in words of the dtype's size. */
export type TensorBits = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;
const WORDS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

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

/** Outputs are never int32. */
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
  const bytes = DTYPE_BYTES[dtype];
  return new WORDS[bytes](new ArrayBuffer(elements * bytes));
};

/** Rounds values to the dtype, ties to even; dtypes of 8 bits saturate. */
export function tensorOf(values: Float32Array<ArrayBuffer>, dtype: TensorDtype): TensorBits {
  switch (dtype) {
    case 'fp16':
      return new Uint16Array(new Float16Array(values).buffer);
    case 'bf16':
      return bfloatBits(values);
    case 'fp32':
      return new Uint32Array(values.buffer, values.byteOffset, values.length);
    case 'e4m3':
    case 'e5m2':
    case 'int8':
      return smallBits(values, dtype);
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
  if (isSmall(dtype)) {
    const values = smallValues(dtype);
    return (index) => values[bits[index]!]!;
  }
  const Values = dtype === 'fp32' ? Float32Array : Float16Array;
  const values = new Values(bits.buffer, bits.byteOffset, bits.length);
  return (index) => values[index]!;
}

/** The values of all elements, which fp32 has exactly. */
export function valuesOfBits(bits: TensorBits, dtype: TensorDtype): Float32Array<ArrayBuffer> {
  const valueAt = valueReader(bits, dtype);
  return Float32Array.from({ length: bits.length }, (_, index) => valueAt(index));
}

/** A tensor's values in their order in memory. */
export const inMemory = <Values extends NumericValues>(values: Values, tensor: Placed): Values =>
  tensor.layout ? reordered(values, tensor.dims, tensor.layout) : values;

/** A tensor's values in the problem's order, from their order in memory. */
export const fromMemory = <Values extends NumericValues>(values: Values, { dims, layout }: Placed): Values =>
  layout
    ? reordered(
        values,
        layout.map((dim) => dims[dim]!),
        dims.map((_, dim) => layout.indexOf(dim)),
      )
    : values;

/** The extents of a tensor in memory, outermost first. */
export const dimsInMemory = ({ dims, layout }: Placed): readonly number[] =>
  layout ? layout.map((dim) => dims[dim]!) : dims;

/** For each dimension of the problem, how many elements lie between neighbors. */
export function stridesOf({ dims, layout = dims.map((_, dim) => dim) }: Placed): number[] {
  const strides = dims.map(() => 1);
  let stride = 1;
  for (const dim of layout.toReversed()) {
    strides[dim] = stride;
    stride *= dims[dim]!;
  }
  return strides;
}

type Placed = Pick<TensorExtent, 'dims' | 'layout'>;
type NumericValues = TensorBits | Float32Array | Float64Array;

/**
 * Reorders values [...dims] to [...dims in `order`]. If the innermost dimension stays innermost, whole runs of it are
 * copied.
 */
function reordered<Values extends NumericValues>(
  values: Values,
  dims: readonly number[],
  order: readonly number[],
): Values {
  const strides = stridesOf({ dims });
  const isRun = order.at(-1) === dims.length - 1;
  const run = isRun ? dims.at(-1)! : 1;
  const outer = isRun ? order.slice(0, -1) : order;
  const to = values.slice() as Values;
  const index = outer.map(() => 0);
  for (let at = 0, from = 0; at < values.length; at += run) {
    if (run === 1) to[at] = values[from]!;
    else to.set(values.subarray(from, from + run), at);
    for (let place = outer.length - 1; place >= 0; --place) {
      const dim = outer[place]!;
      from += strides[dim]!;
      if (++index[place]! < dims[dim]!) break;
      from -= strides[dim]! * dims[dim]!;
      index[place] = 0;
    }
  }
  return to;
}

/**
 * An element of a tensor that is filled with this 16-bit NaN pattern. In 8 bits it is the upper byte, which is NaN in
 * e4m3 and e5m2. int8 has no NaN and gets the lower byte, which tells the patterns apart.
 */
export function filledElement(word: number, dtype: ElementDtype): number {
  if (isSmall(dtype)) return dtype === 'int8' ? word & 0xff : word >> 8;
  return DTYPE_BYTES[dtype] === 4 ? (word * 0x10001) >>> 0 : word;
}
