/** Describes the structs of kernels/reference/attention_reference.h to koffi, and fills them for a case. */
import koffi from 'koffi';
import {
  ELEMENTS,
  type ElementDtype,
  type Operand,
  type OperandAxis,
  type OperandName,
  type ProblemCase,
  type TableName,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { emptyBits, tensorNamed, tensorOf, valuesOfBits, type TensorBits, type TensorsByName } from './tensor-bits.ts';

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
const attention = koffi.struct('flashcore_attention', {
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
const dtypesOfGradients = <Value>(valueOf: (name: OperandName) => Value): Record<string, Value> =>
  Object.fromEntries((['d_q', 'd_k', 'd_v', 'd_sinks'] as const).map((name) => [`${name}_dtype`, valueOf(name)]));

/** The next two are called only for their effect: they register a type's name with koffi. */
koffi.struct('flashcore_attention_gradients', {
  forward: attention,
  d_o: tensor,
  o: tensor,
  d_o_dtype: 'int32_t',
  o_dtype: 'int32_t',
  d_q: output,
  d_k: output,
  d_v: output,
  d_sinks: 'double *',
  d_sinks_rounding: 'float *',
  ...dtypesOfGradients(() => 'int32_t'),
});

koffi.struct('flashcore_attention_parts', {
  ...Object.fromEntries(['parts', 'B', 'H', 'S', 'Dv', 'o_dtype', 'lse_dtype'].map((name) => [name, 'int32_t'])),
  o: tensor,
  lse: tensor,
  o_part_stride: 'int64_t',
  lse_part_stride: 'int64_t',
  lse_base_2: 'int32_t',
  output_dtype: 'int32_t',
  out_o: output,
  out_lse: output,
});

/** FLASHCORE_DTYPE_TF32: kernels may round products of fp32 tensors to tf32. */
const TF32 = 3;
const NO_STRIDES = { count: 0, batch_stride: 0, head_stride: 0, row_stride: 0 };
const ABSENT = { data: null, ...NO_STRIDES };
const NOT_WANTED = { value: null, rounding: null, ...NO_STRIDES };
const UNLIMITED = -1;
/** The value of `causal` for a mask in which the last query sees the last key. */
const BOTTOM_RIGHT = 2;

export interface WantedOutput {
  want: Float64Array;
  rounding?: Float32Array | undefined;
}

/** Arrays to fill, by operand. */
export type WantedOutputs = Readonly<Partial<Record<OperandName, WantedOutput>>>;

/** flashcore_attention for a case. */
export function attentionStruct(computed: ProblemCase, inputs: TensorsByName, out: WantedOutputs): object {
  const { values, dtype } = computed;
  const { causal = 0, window = UNLIMITED, softcap = 0, scale } = values;
  if (scale === undefined) throw new Error(`${computed.problem} has no attribute scale`);
  const bound = new BoundOperands(computed, inputs);
  const stored = bound.storedDtype();
  const [q, k] = [bound.extents('q'), bound.extents('k')];
  // V may have more columns than O, because both may be parts of one cache.
  const { d: valueColumns } = bound.has('o') ? bound.extents('o') : bound.extents('v');
  const [keyLengths, queryOffsets, keyOffsets, pageTable, pageOffsets] = (
    ['key_lengths', 'query_offsets', 'key_offsets', 'page_table', 'page_offsets'] as const
  ).map((name) => bound.table(name));
  const mostPages = pageTable?.dims[1] ?? mostPagesOf(pageOffsets);
  const sequences = queryOffsets ? queryOffsets.dims[0]! - 1 : q.b;
  // The oracle does not check the lengths of these arrays.
  for (const [table, rows] of [
    [keyLengths, sequences],
    [keyOffsets, sequences + 1],
    [pageOffsets, sequences + 1],
    [pageOffsets ? undefined : pageTable, sequences],
  ] as const)
    if (table && table.dims[0] !== rows)
      throw new RangeError(`a table of ${computed.problem} must have ${rows} rows, got ${table.dims[0]}`);
  if (pageOffsets && pageOffsets.data.at(-1)! > pageTable!.data.length)
    throw new RangeError(`page_offsets of ${computed.problem} lead beyond the ${pageTable!.data.length} pages`);
  return {
    B: sequences,
    ...{ Hq: q.h, Hkv: k.h, Sq: q.s, Skv: pageTable ? mostPages * k.s : k.s, D: q.d, Dv: valueColumns },
    dtype: ELEMENTS[stored].number,
    ...{ q: bound.input('q', stored), k: bound.input('k', stored), v: bound.input('v', stored) },
    query_offsets: queryOffsets?.data ?? null,
    key_offsets: keyOffsets?.data ?? null,
    key_lengths: keyLengths?.data ?? null,
    page_table: pageTable?.data ?? null,
    page_offsets: pageOffsets?.data ?? null,
    ...{ page_size: pageTable ? k.s : 0, most_pages: mostPages },
    ...bound.selected({ b: sequences, h: k.h, s: q.s }),
    ...{ alignment: causal === BOTTOM_RIGHT ? 1 : 0, causal: causal === 0 ? 0 : 1 },
    ...{ window_left: window, window_right: UNLIMITED },
    ...{ scale: Math.fround(scale), softcap: Math.fround(softcap) },
    alibi_slopes: bound.perHead('alibi_slopes', q.h),
    sinks: bound.perHead('sinks', q.h),
    ...bound.bias(),
    o: bound.output('o', out),
    lse: bound.output('lse', out),
    lse_base_2: computed.operands.lseBase2 ? 1 : 0,
    weight_dtype: roundedTo(dtype),
    output_dtype: roundedTo(bound.has('o') ? bound.dtype('o') : dtype),
  };
}

/**
 * The FLASHCORE_DTYPE_* that an honest kernel rounds to. Softmax weights are not integers, so int8 kernels may have
 * fp16 ones.
 */
function roundedTo(dtype: ElementDtype): number {
  if (dtype === 'fp32') return TF32;
  return ELEMENTS[dtype === 'int8' ? 'fp16' : dtype].number;
}

/** flashcore_attention_gradients for a case. */
export function gradientsStruct(computed: ProblemCase, inputs: TensorsByName, out: WantedOutputs): object {
  const bound = new BoundOperands(computed, inputs);
  const forward = attentionStruct(computed, inputs, {});
  return {
    // With fp32 tensors, operands of all products may be tf32, which costs less than weights in bf16.
    forward: computed.dtype === 'fp32' ? { ...forward, weight_dtype: ELEMENTS.bf16.number } : forward,
    d_o: bound.input('d_o'),
    d_o_dtype: bound.dtypeNumber('d_o'),
    o: bound.has('o') ? bound.input('o') : ABSENT,
    o_dtype: bound.has('o') ? bound.dtypeNumber('o') : 0,
    d_q: bound.output('d_q', out),
    d_k: bound.output('d_k', out),
    d_v: bound.output('d_v', out),
    d_sinks: bound.gradientPerHead('d_sinks', out),
    d_sinks_rounding: out.d_sinks?.rounding ?? null,
    ...dtypesOfGradients((name) => (bound.has(name) ? roundedTo(bound.dtype(name)) : 0)),
  };
}

/** flashcore_attention_parts for a case. */
export function partsStruct(computed: ProblemCase, inputs: TensorsByName, out: WantedOutputs): object {
  const bound = new BoundOperands(computed, inputs);
  const { p: parts, b: B, h: H, s: S, d: Dv } = bound.extents('o_parts');
  for (const [name, operand] of [
    ['lse_parts', bound.extents('lse_parts')],
    ['o', { ...bound.extents('o'), p: parts }],
  ] as const)
    if (operand.p !== parts || operand.b !== B || operand.h !== H || operand.s !== S)
      throw new RangeError(`${name} of ${computed.problem} must have the parts, batches, heads and rows of o_parts`);
  if (bound.has('o') && bound.extents('o').d !== Dv)
    throw new RangeError(`o of ${computed.problem} must have the columns of o_parts, got ${bound.extents('o').d}`);
  return {
    ...{ parts, B, H, S, Dv, o_dtype: bound.dtypeNumber('o_parts'), lse_dtype: bound.dtypeNumber('lse_parts') },
    ...{ o: bound.input('o_parts'), lse: bound.input('lse_parts') },
    ...{ o_part_stride: bound.stride('o_parts', 'p'), lse_part_stride: bound.stride('lse_parts', 'p') },
    ...{ lse_base_2: computed.operands.lseBase2 ? 1 : 0, output_dtype: bound.dtypeNumber('o') },
    ...{ out_o: bound.output('o', out), out_lse: bound.output('lse', out) },
  };
}

/** Maximum number of pages of one sequence; at least 1, because the oracle wants room for a key. */
function mostPagesOf(offsets: { data: TensorBits } | undefined): number {
  let most = offsets ? 1 : 0;
  for (let at = 1; offsets && at < offsets.data.length; at += 1)
    most = Math.max(most, offsets.data[at]! - offsets.data[at - 1]!);
  return most;
}

type Extents = Record<OperandAxis, number>;

/** The tensors of an operation, with extents and strides by the meaning of their dimensions. */
class BoundOperands {
  readonly #computed: ProblemCase;
  readonly #inputs: TensorsByName;

  constructor(computed: ProblemCase, inputs: TensorsByName) {
    this.#computed = computed;
    this.#inputs = inputs;
  }

  /** Whether the case has the tensor. */
  has(name: OperandName): boolean {
    const tensor = this.#computed.operands.operands[name]?.tensor;
    return this.#computed.tensors.some((each) => each.name === tensor);
  }

  /** Extents by axis; 1 for dimensions that the operand lacks. */
  extents(name: OperandName): Extents {
    const { axes, dims } = this.#placed(name);
    const extents: Extents = { b: 1, h: 1, s: 1, d: 1, k: 1, p: 1 };
    for (const [dim, axis] of axes.entries()) extents[axis] = dims[dim]!;
    return extents;
  }

  dtype(name: OperandName): ElementDtype {
    return tensorNamed(this.#computed, this.#placed(name).name).dtype;
  }

  /**
   * The dtype of Q, K and V for the oracle, which takes one dtype for all three and no integers. Other tensors become
   * fp32, which is exact.
   */
  storedDtype(): ElementDtype {
    const [first, ...rest] = (['q', 'k', 'v'] as const).map((name) => this.dtype(name));
    return first === undefined || first === 'int8' || rest.some((other) => other !== first) ? 'fp32' : first;
  }

  /** `dtype`: the dtype that the elements must have. */
  input(name: OperandName, dtype: ElementDtype = this.dtype(name)): object {
    const bits = this.#data(name);
    const own = this.dtype(name) as TensorDtype;
    const data = dtype === own ? bits : tensorOf(valuesOfBits(bits, own), 'fp32');
    return { data, count: data.length, ...this.#strides(name) };
  }

  /** fp32 numbers, one per head; null if the case has none. The oracle does not check their count. */
  perHead(name: 'sinks' | 'alibi_slopes', heads: number): Float32Array | null {
    if (!this.has(name)) return null;
    const { name: tensor } = this.#placed(name);
    const bits = this.#bits(tensor);
    if (bits.length !== heads)
      throw new RangeError(`${tensor} of ${this.#computed.problem} must have ${heads} heads, got ${bits.length}`);
    return new Float32Array(bits.buffer, bits.byteOffset, bits.length);
  }

  /** Room for a double per head; null if it is not wanted. The oracle does not check its count. */
  gradientPerHead(name: 'd_sinks', out: WantedOutputs): Float64Array | null {
    const wanted = out[name]?.want ?? null;
    const { h: heads } = this.extents('q');
    if (wanted && wanted.length !== heads)
      throw new RangeError(`${name} of ${this.#computed.problem} must have ${heads} heads, got ${wanted.length}`);
    return wanted;
  }

  bias(): object {
    if (!this.has('bias')) return { bias: ABSENT, bias_key_stride: 0, bias_dtype: 0 };
    return { bias: this.input('bias'), bias_key_stride: 1, bias_dtype: this.dtypeNumber('bias') };
  }

  /** Lists of keys, which may be the same for all batches, heads or queries. */
  selected(wanted: Readonly<Record<'b' | 'h' | 's', number>>): object {
    if (!this.has('selected')) return { selected: ABSENT, most_selected: 0 };
    const { axes, name } = this.#placed('selected');
    const { draw } = tensorNamed(this.#computed, name);
    const queries = draw?.kind === 'selected' ? (draw.queries ?? 1) : 1;
    const found = this.extents('selected');
    const lists = { ...wanted, s: Math.ceil(wanted.s / queries) };
    for (const axis of ['b', 'h', 's'] as const)
      if (axes.includes(axis) && found[axis] !== lists[axis])
        throw new RangeError(
          `selected of ${this.#computed.problem} must have ${lists[axis]} as ${axis}, got ${found[axis]}`,
        );
    const isShared = queries > 1 && axes.includes('s');
    return {
      selected: isShared ? this.#listsOfQueries({ ...wanted, queries }) : this.input('selected'),
      most_selected: found.k,
    };
  }

  /** Lists that several queries share, as [b, h, s, k] with one for each query. */
  #listsOfQueries({ b, h, s, queries }: Readonly<Record<'b' | 'h' | 's' | 'queries', number>>): object {
    const lists = this.#data('selected');
    const { k: places } = this.extents('selected');
    const [ofBatch, ofHead, ofBlock] = (['b', 'h', 's'] as const).map((axis) => this.stride('selected', axis)) as [
      number,
      number,
      number,
    ];
    const data = emptyBits(b * h * s * places, 'int32');
    for (let to = 0; to * places < data.length; to += 1) {
      const block = Math.floor((to % s) / queries);
      const from = Math.floor(to / s / h) * ofBatch + (Math.floor(to / s) % h) * ofHead + block * ofBlock;
      data.set(lists.subarray(from, from + places), to * places);
    }
    return {
      data,
      count: data.length,
      ...{ batch_stride: h * s * places, head_stride: s * places, row_stride: places },
    };
  }

  /** FLASHCORE_DTYPE_* of the operand's elements. */
  dtypeNumber(name: OperandName): number {
    return ELEMENTS[this.dtype(name)].number;
  }

  output(name: OperandName, out: WantedOutputs): object {
    const wanted = out[name];
    if (!wanted) return NOT_WANTED;
    const { want, rounding } = wanted;
    return { value: want, rounding: rounding ?? null, count: want.length, ...this.#strides(name) };
  }

  table(name: TableName): { data: TensorBits; dims: readonly number[] } | undefined {
    const named = this.#computed.operands.tables[name];
    return named === undefined ? undefined : { data: this.#bits(named), dims: tensorNamed(this.#computed, named).dims };
  }

  #placed(name: OperandName): Pick<Operand, 'axes'> & Pick<TensorExtent, 'name' | 'dims'> {
    const operand = this.#computed.operands.operands[name];
    if (!operand) throw new Error(`${this.#computed.problem} has no ${name}`);
    const { dims } = tensorNamed(this.#computed, operand.tensor);
    const more = operand.more === undefined ? 0 : tensorNamed(this.#computed, operand.more).dims.at(-1)!;
    return { axes: operand.axes, name: operand.tensor, dims: [...dims.slice(0, -1), dims.at(-1)! + more] };
  }

  /** The values of an operand. If two tensors make up the operand, their rows are concatenated. */
  #data(name: OperandName): TensorBits {
    const { tensor, more } = this.#computed.operands.operands[name]!;
    const first = this.#bits(tensor);
    if (more === undefined) return first;
    const second = this.#bits(more);
    const [width, added] = [tensor, more].map((each) => tensorNamed(this.#computed, each).dims.at(-1)!) as [
      number,
      number,
    ];
    if (first.length / width !== second.length / added)
      throw new RangeError(`${tensor} and ${more} of ${this.#computed.problem} must have the same rows`);
    const joined = emptyBits(first.length + second.length, tensorNamed(this.#computed, tensor).dtype);
    for (let row = 0; row * width < first.length; row += 1) {
      joined.set(first.subarray(row * width, (row + 1) * width), row * (width + added));
      joined.set(second.subarray(row * added, (row + 1) * added), row * (width + added) + width);
    }
    return joined;
  }

  #bits(name: string): TensorBits {
    const bits = entryOf(this.#inputs, name);
    if (!bits) throw new Error(`${this.#computed.problem} has no values of ${name}`);
    return bits;
  }

  #strides(name: OperandName): object {
    const stride = (axis: OperandAxis): number => this.stride(name, axis);
    return { batch_stride: stride('b'), head_stride: stride('h'), row_stride: stride('s') };
  }

  /** Elements between neighbors along an axis; 0 for an axis that the operand lacks. */
  stride(name: OperandName, axis: OperandAxis): number {
    const { axes, dims } = this.#placed(name);
    return axes.includes(axis) ? dims.slice(axes.indexOf(axis) + 1).reduce((product, each) => product * each, 1) : 0;
  }
}
