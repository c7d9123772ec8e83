/** Describes the struct of flashcore_attention_forward() (kernels/reference/attention_reference.h) to koffi. */
import koffi from 'koffi';
import type { ProblemCase, TensorDtype } from '@flashcore/shared/kernels';
import { tensorNamed, type TensorBits, type TensorsByName } from './tensor-bits.ts';

const tensor = koffi.struct('flashcore_tensor', {
  data: 'const void *',
  count: 'int64_t',
  batch_stride: 'int64_t',
  head_stride: 'int64_t',
  row_stride: 'int64_t',
});
const output = koffi.struct('flashcore_output', {
  value: 'double *',
  rounding: 'float *',
  count: 'int64_t',
  batch_stride: 'int64_t',
  head_stride: 'int64_t',
  row_stride: 'int64_t',
});
/** Called for its effect: koffi then knows the type by its name. */
koffi.struct('flashcore_attention', {
  ...Object.fromEntries(['B', 'Hq', 'Hkv', 'Sq', 'Skv', 'D', 'Dv', 'dtype'].map((name) => [name, 'int32_t'])),
  q: tensor,
  k: tensor,
  v: tensor,
  query_offsets: 'const int32_t *',
  key_offsets: 'const int32_t *',
  key_lengths: 'const int32_t *',
  page_table: 'const int32_t *',
  page_offsets: 'const int32_t *',
  page_size: 'int32_t',
  most_pages: 'int32_t',
  selected: tensor,
  most_selected: 'int32_t',
  alignment: 'int32_t',
  causal: 'int32_t',
  window_left: 'int32_t',
  window_right: 'int32_t',
  scale: 'float',
  softcap: 'float',
  alibi_slopes: 'const float *',
  sinks: 'const float *',
  bias: tensor,
  bias_key_stride: 'int64_t',
  bias_dtype: 'int32_t',
  o: output,
  lse: output,
  lse_base_2: 'int32_t',
  weight_dtype: 'int32_t',
  output_dtype: 'int32_t',
});

/** FLASHCORE_DTYPE_* of the header; kernels may round products of fp32 tensors to tf32. */
const DTYPES: Readonly<Record<TensorDtype, number>> = { fp16: 0, bf16: 1, fp32: 2 };
const TF32 = 3;
const ABSENT = { data: null, count: 0, batch_stride: 0, head_stride: 0, row_stride: 0 };
const UNLIMITED = -1;

export interface AttentionOutput {
  want: Float64Array;
  rounding?: Float32Array | undefined;
}

/** The struct for a case of the problem `attention`, whose tensors are contiguous. */
export function attentionStruct(attention: ProblemCase, inputs: TensorsByName, out: AttentionOutput): object {
  const { values, dtype } = attention;
  const { causal = 0, window = UNLIMITED, softcap = 0, scale } = values;
  if (scale === undefined) throw new Error(`${attention.problem} has no attribute scale`);
  const [q, k, v, o] = ['Q', 'K', 'V', 'O'].map((name) => tensorNamed(attention, name).dims as Dims) as [
    Dims,
    Dims,
    Dims,
    Dims,
  ];
  return {
    ...{ B: q[0], Hq: q[1], Hkv: k[1], Sq: q[2], Skv: k[2], D: q[3], Dv: v[3], dtype: DTYPES[dtype] },
    ...{ q: contiguous(inputs['Q']!, q), k: contiguous(inputs['K']!, k), v: contiguous(inputs['V']!, v) },
    ...{ query_offsets: null, key_offsets: null, key_lengths: null },
    ...{ page_table: null, page_offsets: null, page_size: 0, most_pages: 0, selected: ABSENT, most_selected: 0 },
    ...{ alignment: causal === BOTTOM_RIGHT ? 1 : 0, causal: causal === 0 ? 0 : 1 },
    ...{ window_left: window, window_right: UNLIMITED },
    ...{ scale: Math.fround(scale), softcap: Math.fround(softcap), alibi_slopes: null, sinks: null },
    ...{ bias: ABSENT, bias_key_stride: 0, bias_dtype: 0 },
    o: { value: out.want, rounding: out.rounding ?? null, ...stridesOf(o, out.want.length) },
    lse: { value: null, rounding: null, count: 0, batch_stride: 0, head_stride: 0, row_stride: 0 },
    lse_base_2: 0,
    weight_dtype: dtype === 'fp32' ? TF32 : DTYPES[dtype],
    output_dtype: dtype === 'fp32' ? TF32 : DTYPES[dtype],
  };
}

/** `causal` for a mask in which the last query sees the last key. */
const BOTTOM_RIGHT = 2;

type Dims = readonly [number, number, number, number];

const contiguous = (data: TensorBits, dims: Dims) => ({ data, ...stridesOf(dims, data.length) });

const stridesOf = ([, heads, rows, columns]: Dims, count: number) => ({
  count,
  batch_stride: heads * rows * columns,
  head_stride: rows * columns,
  row_stride: columns,
});
