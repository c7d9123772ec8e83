/** Tensors as bit patterns, and their values. */
import {
  DTYPE_BYTES,
  bfloatBits,
  type LaunchPlan,
  type ShapeFields,
  type TensorDtype,
} from '@flashcore/shared/kernels';

/** Bits of fp16 and bf16 in 16, of fp32 in 32. */
export type TensorBits = Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** What a kernel's tensors are. */
export interface TensorKind {
  shape: ShapeFields;
  dtype: TensorDtype;
}

export const tensorKindOf = ({ shape, plan }: { shape: ShapeFields; plan: Pick<LaunchPlan, 'dtype'> }): TensorKind => ({
  shape,
  dtype: plan.dtype,
});

/** Elements of Q, and of K, V and O. */
export function elementsOf(shape: ShapeFields): number {
  return shape.batch * shape.heads * shape.sequenceLength * shape.headDim;
}

export const emptyTensor = ({ shape, dtype }: TensorKind): TensorBits =>
  DTYPE_BYTES[dtype] === 4 ? new Uint32Array(elementsOf(shape)) : new Uint16Array(elementsOf(shape));

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
