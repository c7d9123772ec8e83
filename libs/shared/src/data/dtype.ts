/** Number formats of tensors and workspaces: everything that is known about each, and their bits. */

/** Dtypes of a kernel. A kernel's dtype applies to every tensor without a dtype of its own. */
export const TENSOR_DTYPES = ['fp16', 'bf16', 'fp32', 'e4m3', 'e5m2', 'int8'] as const;
export type TensorDtype = (typeof TENSOR_DTYPES)[number];

/** Dtypes of a tensor. */
export const ELEMENT_DTYPES = [...TENSOR_DTYPES, 'int32'] as const;
export type ElementDtype = (typeof ELEMENT_DTYPES)[number];

export const isTensorDtype = (text: string): text is TensorDtype => TENSOR_DTYPES.some((dtype) => dtype === text);

/** The dtype that a message or record names. A record from before dtypes were stored names no dtype and is fp16. */
export const recordedDtype = (text: string | undefined): string => text || 'fp16';
export const WORKSPACE_DTYPES = [...ELEMENT_DTYPES, 'uint8'] as const;
export type WorkspaceDtype = (typeof WORKSPACE_DTYPES)[number];

interface ElementFacts {
  /** Size of an element. */
  readonly bytes: 1 | 2 | 4;
  /** FLASHCORE_DTYPE_* of kernels/reference/attention_reference.h; judge.cu and flashcore_reference.h use it too. */
  readonly number: number;
  /** CUtensorMapDataType: the name after CU_TENSOR_MAP_DATA_TYPE_, and the number (cuda.h). */
  readonly tensorMap: string;
  readonly tensorMapNumber: number;
  /** PyTorch's name, as in torch.float16. */
  readonly torch: string;
  /** Triton's type of a pointer to elements of this dtype. */
  readonly triton: string;
}

/** The numbers of a format. An integer format is described as if all of its numbers were subnormal, with steps of 1. */
export interface NumberFormat {
  /** Bits after the leading bit. */
  readonly mantissa: number;
  /** Exponent of the smallest normal number. */
  readonly least: number;
  readonly largest: number;
}

export interface DtypeFacts extends ElementFacts {
  readonly format: NumberFormat;
  /**
   * Limit on the error of an honest kernel's rounding: `unit` times the element, or times `smallest` if that is more.
   * Products of fp32 may be tf32, and kernels may take subnormal numbers of bf16 and fp32 for 0.
   */
  readonly rounding: { readonly unit: number; readonly smallest: number };
  /**
   * Exponents of drawn numbers: all from the smallest subnormal number to half of the largest, or as far from both ends
   * as sums of products with weights need to stay in fp32's normal numbers.
   */
  readonly exponents: { readonly least: number; readonly most: number };
  /**
   * Distributions divide Q by powers of two up to this exponent and multiply K by them. If the dtype has a larger range
   * than fp16, the powers are beyond fp16's range, because such tensors must not pass as fp16.
   */
  readonly channelExponent: number;
  /** The number in the dtype that stands for a 1 of a distribution's N(0, 1). */
  readonly drawnUnit: number;
  /** Dense tensor-core peak, relative to fp16's. */
  readonly tensorRate: number;
  /** ATen's name, as in at::kHalf. */
  readonly aten: string;
  /** The dtype's CUDA header, which must come before the kernel's macros; undefined if it needs none. */
  readonly header: string | undefined;
  /** Allowed absolute and relative difference to fp32 attention in a test on N(0, 1): four units of roundoff. */
  readonly closeness: string;
}

const FP16: NumberFormat = { mantissa: 10, least: -14, largest: 65_504 };

/** Facts of the dtypes of tensors that distributions draw and kernels round. */
export const DTYPES: Readonly<Record<TensorDtype, DtypeFacts>> = {
  fp16: {
    bytes: 2,
    number: 0,
    tensorMap: 'FLOAT16',
    tensorMapNumber: 6,
    torch: 'float16',
    triton: '*fp16',
    format: FP16,
    rounding: { unit: 2 ** -11, smallest: 2 ** -14 },
    exponents: { least: -24, most: 14 },
    channelExponent: 10,
    drawnUnit: 1,
    tensorRate: 1,
    aten: 'kHalf',
    header: 'cuda_fp16.h',
    closeness: '2e-3',
  },
  bf16: {
    bytes: 2,
    number: 1,
    tensorMap: 'BFLOAT16',
    tensorMapNumber: 9,
    torch: 'bfloat16',
    triton: '*bf16',
    format: { mantissa: 7, least: -126, largest: (2 - 2 ** -7) * 2 ** 127 },
    rounding: { unit: 2 ** -8, smallest: 2 ** -118 },
    exponents: { least: -100, most: 100 },
    channelExponent: 30,
    drawnUnit: 1,
    tensorRate: 1,
    aten: 'kBFloat16',
    header: 'cuda_bf16.h',
    closeness: '1.6e-2',
  },
  fp32: {
    bytes: 4,
    number: 2,
    tensorMap: 'FLOAT32',
    tensorMapNumber: 7,
    torch: 'float32',
    triton: '*fp32',
    format: { mantissa: 23, least: -126, largest: (2 - 2 ** -23) * 2 ** 127 },
    rounding: { unit: 2 ** -11, smallest: 2 ** -115 },
    exponents: { least: -100, most: 100 },
    channelExponent: 30,
    drawnUnit: 1,
    tensorRate: 1 / 2,
    aten: 'kFloat',
    header: undefined,
    closeness: '2e-3',
  },
  // This format has no infinity, and one NaN of each sign: __nv_fp8_e4m3, torch.float8_e4m3fn.
  e4m3: {
    bytes: 1,
    number: 4,
    tensorMap: 'UINT8',
    tensorMapNumber: 0,
    torch: 'float8_e4m3fn',
    triton: '*fp8e4nv',
    format: { mantissa: 3, least: -6, largest: 448 },
    rounding: { unit: 2 ** -4, smallest: 2 ** -6 },
    exponents: { least: -9, most: 7 },
    channelExponent: 3,
    drawnUnit: 1,
    tensorRate: 2,
    aten: 'kFloat8_e4m3fn',
    header: 'cuda_fp8.h',
    closeness: '2.5e-1',
  },
  e5m2: {
    bytes: 1,
    number: 5,
    tensorMap: 'UINT8',
    tensorMapNumber: 0,
    torch: 'float8_e5m2',
    triton: '*fp8e5',
    format: { mantissa: 2, least: -14, largest: 57_344 },
    rounding: { unit: 2 ** -3, smallest: 2 ** -14 },
    exponents: { least: -16, most: 14 },
    channelExponent: 10,
    drawnUnit: 1,
    tensorRate: 2,
    aten: 'kFloat8_e5m2',
    header: 'cuda_fp8.h',
    closeness: '5e-1',
  },
  // Drawn numbers go from -127 to 127, because a symmetry may flip their signs. With 32 units a standard deviation, 127
  // is four of them.
  int8: {
    bytes: 1,
    number: 6,
    tensorMap: 'UINT8',
    tensorMapNumber: 0,
    torch: 'int8',
    triton: '*i8',
    format: { mantissa: 7, least: 7, largest: 127 },
    rounding: { unit: 2 ** -8, smallest: 2 ** 7 },
    exponents: { least: -5, most: 0 },
    channelExponent: 1,
    drawnUnit: 32,
    tensorRate: 2,
    aten: 'kChar',
    header: undefined,
    closeness: '2e0',
  },
};

const INT32: ElementFacts = {
  bytes: 4,
  number: 7,
  tensorMap: 'INT32',
  tensorMapNumber: 3,
  torch: 'int32',
  triton: '*i32',
};

/** Facts of the dtypes that a tensor may have. */
export const ELEMENTS: Readonly<Record<ElementDtype, ElementFacts>> = { ...DTYPES, int32: INT32 };

export const DTYPE_BYTES: Readonly<Record<WorkspaceDtype, 1 | 2 | 4>> = {
  ...(Object.fromEntries(ELEMENT_DTYPES.map((dtype) => [dtype, ELEMENTS[dtype].bytes])) as Record<
    ElementDtype,
    1 | 2 | 4
  >),
  uint8: 1,
};

/** Formats of 8 bits. Their conversions saturate: a number beyond the largest one becomes the largest. */
export type SmallDtype = 'e4m3' | 'e5m2' | 'int8';
export const isSmall = (dtype: WorkspaceDtype): dtype is SmallDtype => dtype !== 'uint8' && DTYPE_BYTES[dtype] === 1;

/** The least and the largest finite number of a format of 8 bits. */
export const rangeOf = (dtype: SmallDtype): readonly [least: number, most: number] => {
  const { largest } = DTYPES[dtype].format;
  return [dtype === 'int8' ? -128 : -largest, largest];
};

/** A pattern that fills a buffer before each run of a kernel's launches. */
export interface Fill {
  /** Length of the pattern. */
  readonly bytes: 1 | 2 | 4;
  readonly bits: number;
}

/** The range of each integer dtype. The other dtypes accept every number and the infinities. */
const INTEGER_RANGES: Partial<Record<WorkspaceDtype, readonly [number, number]>> = {
  int8: [-128, 127],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint8: [0, 255],
};

/** Why a dtype cannot represent a value; undefined if it can. */
export function valueProblem(value: number, dtype: WorkspaceDtype): string | undefined {
  const range = INTEGER_RANGES[dtype];
  if (!range || (Number.isInteger(value) && value >= range[0] && value <= range[1])) return undefined;
  return `must be an integer of ${range[0]} to ${range[1]}, as ${dtype} is, got ${value}`;
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
    case 'e4m3':
    case 'e5m2':
      return floatByte(value, dtype);
    case 'int8':
      return integerByte(value);
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

/** Rounds each value to the nearest number of the format, ties to even, and saturates, as cvt.rn.satfinite does. */
export const smallBits = (values: Float32Array<ArrayBuffer>, dtype: SmallDtype): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(values, dtype === 'int8' ? integerByte : (value) => floatByte(value, dtype));

/** Returns the values of the format's 256 bytes. */
export const smallValues = (dtype: SmallDtype): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: 256 }, (_, byte) => (dtype === 'int8' ? (byte << 24) >> 24 : byteValue(byte, dtype)));

const SIGN = 0x80;
const NAN_BYTE = 0x7f;

function floatByte(value: number, dtype: 'e4m3' | 'e5m2'): number {
  const { mantissa, least, largest } = DTYPES[dtype].format;
  if (Number.isNaN(value)) return NAN_BYTE;
  const magnitude = Math.min(Math.abs(value), largest);
  const exponent = Math.max(least, exponentOf(magnitude));
  // Each step of the exponent adds 2 ** mantissa codes. A mantissa that is rounded up to 2 adds as many, which gives
  // the next exponent.
  const code = ((exponent - least) << mantissa) + roundedToEven(magnitude / 2 ** (exponent - mantissa));
  return (value < 0 || Object.is(value, -0) ? SIGN : 0) | code;
}

function byteValue(byte: number, dtype: 'e4m3' | 'e5m2'): number {
  const { mantissa, least } = DTYPES[dtype].format;
  const magnitude = byte & ~SIGN;
  const [exponent, fraction] = [magnitude >> mantissa, magnitude & ((1 << mantissa) - 1)];
  const sign = byte & SIGN ? -1 : 1;
  if (dtype === 'e4m3' ? magnitude === NAN_BYTE : exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  const leading = exponent > 0 ? 1 << mantissa : 0;
  return sign * (leading + fraction) * 2 ** (least + Math.max(0, exponent - 1) - mantissa);
}

/** NaN becomes 0, and numbers saturate at -128 and 127, as cvt.rni.sat.s8.f32 has it. */
const integerByte = (value: number): number =>
  Number.isNaN(value) ? 0 : Math.max(-128, Math.min(127, roundedToEven(value))) & 0xff;

function roundedToEven(value: number): number {
  const below = Math.floor(value);
  const up = value - below > 0.5 || (value - below === 0.5 && below % 2 !== 0);
  return below + (up ? 1 : 0);
}

const word = new Uint32Array(1);
const wordAsFloat = new Float32Array(word.buffer);

/** floor(log2(value)) of a number that is normal in fp32; less for a subnormal number. */
function exponentOf(value: number): number {
  wordAsFloat[0] = value;
  return (word[0]! >>> 23) - 127;
}
