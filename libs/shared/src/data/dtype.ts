/** Number formats of tensors and workspaces, and their bits. */

/** Dtypes of a kernel. A kernel's dtype applies to every tensor without a dtype of its own. */
export const TENSOR_DTYPES = ['fp16', 'bf16', 'fp32'] as const;
export type TensorDtype = (typeof TENSOR_DTYPES)[number];

/** Dtypes of a tensor. */
export const ELEMENT_DTYPES = [...TENSOR_DTYPES, 'int32'] as const;
export type ElementDtype = (typeof ELEMENT_DTYPES)[number];

export const isTensorDtype = (text: string): text is TensorDtype => TENSOR_DTYPES.some((dtype) => dtype === text);

/** The dtype that a message or record names. A record from before dtypes were stored names no dtype and is fp16. */
export const recordedDtype = (text: string | undefined): string => text || 'fp16';
export const WORKSPACE_DTYPES = [...ELEMENT_DTYPES, 'uint8'] as const;
export type WorkspaceDtype = (typeof WORKSPACE_DTYPES)[number];

export const DTYPE_BYTES: Readonly<Record<WorkspaceDtype, 1 | 2 | 4>> = {
  fp16: 2,
  bf16: 2,
  fp32: 4,
  int32: 4,
  uint8: 1,
};

/** A pattern that fills a buffer before each run of a kernel's launches. */
export interface Fill {
  /** Length of the pattern. */
  readonly bytes: 1 | 2 | 4;
  readonly bits: number;
}

/** The range of each integer dtype. The other dtypes accept every number and the infinities. */
const INTEGER_RANGES: Partial<Record<WorkspaceDtype, readonly [number, number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint8: [0, 255],
};

/** Why a dtype cannot represent a value; undefined if it can. */
export function valueProblem(value: number, dtype: WorkspaceDtype): string | undefined {
  const range = INTEGER_RANGES[dtype];
  if (!range || (Number.isInteger(value) && value >= range[0] && value <= range[1])) return undefined;
  return `wanted an integer of ${range[0]} to ${range[1]}, as ${dtype} is, found ${value}`;
}

/** A value's bits, rounded to the dtype; two's complement for integers. */
export function bitsOf(value: number, dtype: WorkspaceDtype): number {
  switch (dtype) {
    case 'fp16':
      return new Uint16Array(new Float16Array([value]).buffer)[0]!;
    case 'bf16':
      return bfloatBits(Float32Array.of(value))[0]!;
    case 'fp32':
      return new Uint32Array(Float32Array.of(value).buffer)[0]!;
    case 'int32':
      return value >>> 0;
    case 'uint8':
      return value;
  }
}

export const fillOf = (value: number, dtype: WorkspaceDtype): Fill => ({
  bytes: DTYPE_BYTES[dtype],
  bits: bitsOf(value, dtype),
});

/** Rounds each value to the nearest bf16, ties to even; NaN stays NaN. */
export function bfloatBits(values: Float32Array<ArrayBuffer>): Uint16Array<ArrayBuffer> {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(words, (word) =>
    (word & 0x7fff_ffff) > 0x7f80_0000 ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16,
  );
}
