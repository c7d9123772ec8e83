import { availableParallelism } from 'node:os';
import koffi from 'koffi';
import {
  ELEMENTS,
  elementsOfTensor,
  type ElementDtype,
  type OperandName,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import {
  attentionStruct,
  gradientsStruct,
  partsStruct,
  type WantedOutput,
  type WantedOutputs,
} from './attention-call.ts';
import {
  emptyBits,
  matricesOf,
  outputOf,
  outputsOf,
  tensorNamed,
  tensorOf,
  type OutputExtent,
  type TensorBits,
  type TensorsByName,
} from './tensor-bits.ts';

/** The right values of an output, and the error that rounding to the dtype can explain. */
export interface RoundedAnswer {
  /** In double precision, in the order of the output's dimensions. */
  want: Float64Array;
  /**
   * Standard deviation of each element's rounding error (kernels/reference/attention_reference.h); undefined if the
   * reference does not model rounding.
   */
  rounding?: Float32Array;
  /** Whether rounding may also explain an error beyond the tolerance, as it does where large numbers cancel out. */
  roundingExplains?: boolean;
}

/** An answer whose rounding the reference models. */
export type ModelledAnswer = RoundedAnswer & Required<Pick<RoundedAnswer, 'rounding'>>;

/** Answers by output name. */
export type Answers = ReadonlyMap<string, RoundedAnswer>;

/** Attention on the CPU (kernels/reference/attention_reference.h), through its C ABI. */
export interface Reference {
  /** Returns the first output in double precision. */
  fp64(inputs: TensorsByName, computed: ProblemCase): Float64Array;
  /** Returns all outputs, with rounding for those outputs whose rounding the oracle models. */
  answers(inputs: TensorsByName, computed: ProblemCase, how?: { rounding: boolean }): Answers;
  /** Returns the inputs that the oracle computes from other inputs, rounded to their dtypes. */
  derived(inputs: TensorsByName, computed: ProblemCase): TensorsByName;
  /** softmax(Q Kᵀ / sqrt(D)) V as a plain implementation in the inputs' dtype computes it. */
  plain(inputs: TensorsByName, attention: ProblemCase): TensorBits;
  /** Like answers(), but computes on other threads; so does plainBeside(). */
  answersBeside(inputs: TensorsByName, computed: ProblemCase): Promise<Answers>;
  plainBeside(inputs: TensorsByName, attention: ProblemCase): Promise<TensorBits>;
  /**
   * Fills `values` with N(0, 1) times `scale`, on all threads of the host. Gives the same bits as
   * CounterRandom.fillNormal() with this key and stream.
   */
  normal(values: TensorBits, source: NormalSource): TensorBits;
  /** Compares an output with the fp64 reference, element by element (kernels/reference/output_comparison.h). */
  compare(got: TensorBits, want: Float64Array, how: ComparedTensors): NativeComparison;
  /** max|got - want|. */
  maxAbsError(got: TensorBits, want: Float64Array, dtype: TensorDtype): number;
  /** The worst block's error in units of its rounding, and the index where the block begins (output_comparison.h). */
  roundingRatio(got: TensorBits, answer: ModelledAnswer, output: OutputExtent): { ratio: number; index: number };
}

export interface ComparedTensors {
  /** Dtype of the output. */
  dtype: TensorDtype;
  /** Batches times heads. */
  heads: number;
  rows: number;
  columns: number;
  /** The NaN pattern that filled the output before the run. */
  poison: number;
  absolute: number;
  relative: number;
  /** An element may also be off by `explained` times its rounding. Undefined: it may not. */
  rounding: Float32Array | undefined;
  explained: number;
  /** Extent of the error map's blocks. */
  blockRows: number;
  blockColumns: number;
  /** Blocks per head. */
  blocks: number;
  /** Maximum number of mismatches whose indices are reported. */
  listed: number;
  /** Whether each head has a map of its own. */
  headMaps: boolean;
}

/** The outputs of output_comparison.h. */
export interface NativeComparison {
  figures: Record<(typeof FIGURES)[number], number>;
  first: Float64Array;
  map: Float64Array;
  mapIndex: Float64Array;
  headMap: Float32Array;
}

/** In the order of the header's enum. */
const FIGURES = [
  'mismatches',
  'nanCount',
  'infCount',
  'unwrittenCount',
  'worstIndex',
  'worstOfLimit',
  'maxAbsError',
  'sumAbsError',
  'sumSquareError',
  'maxRelError',
  'p999AbsError',
  'gotSquares',
  'wantSquares',
] as const;

export interface NormalSource {
  /** Dtype of the values. */
  dtype: TensorDtype;
  key: number;
  stream: number;
  scale: number;
}

const STATUS = ['OK', 'BAD_ARGUMENT', 'OUT_OF_MEMORY'];

/** A library function that returns a status; `async` runs it on another thread. */
interface Native<Arguments extends readonly unknown[]> {
  (...values: Arguments): number;
  async: (...values: [...Arguments, done: (error: Error | null, status: number) => void]) => void;
}

// The structs of flashcore_reference_* and output_comparison.h, by the names under which the calls below use them.
koffi.struct('flashcore_contiguous', {
  ...Object.fromEntries(['dtype', 'B', 'H', 'S', 'D', 'causal'].map((name) => [name, 'int32_t'])),
  scale: 'float',
  q: 'const void *',
  k: 'const void *',
  v: 'const void *',
});
koffi.struct('flashcore_normals', { key: 'uint32_t', stream: 'uint32_t', scale: 'double', threads: 'int32_t' });
koffi.struct('flashcore_compared', {
  got: 'const void *',
  want: 'const double *',
  rounding: 'const float *',
  heads: 'int64_t',
  S: 'int32_t',
  D: 'int32_t',
  dtype: 'int32_t',
});
koffi.struct('flashcore_comparison_rules', {
  absolute: 'double',
  relative: 'double',
  explained: 'double',
  poison: 'uint32_t',
  block_rows: 'int32_t',
  block_columns: 'int32_t',
  listed: 'int32_t',
});
koffi.struct('flashcore_comparison', {
  figures: 'double *',
  first: 'double *',
  map: 'double *',
  map_index: 'double *',
  head_map: 'float *',
});

/** One thread per processor. */
const ALL_THREADS = 0;
/**
 * Threads for work that runs along with compilers, which want all cores. Threads that share a core slow each other
 * down, whatever their priority.
 */
const THREADS_BESIDE = Math.max(1, availableParallelism() >> 1);

export function loadReference(path: string): Reference {
  const library = koffi.load(path);
  const forward = library.func(
    'int flashcore_attention_forward(const flashcore_attention *problem, int32_t threads)',
  ) as unknown as Native<[object, number]>;
  const backward = library.func(
    'int flashcore_attention_backward(const flashcore_attention_gradients *problem, int32_t threads)',
  ) as unknown as Native<[object, number]>;
  const merge = library.func(
    'int flashcore_attention_merge(const flashcore_attention_parts *problem, int32_t threads)',
  ) as unknown as Native<[object, number]>;
  const roundingRatio = library.func(
    'int flashcore_rounding_ratio(const flashcore_compared *output, int32_t least_rows, double *out)',
  ) as unknown as (output: object, leastRows: number, out: Float64Array) => number;
  const plain = library.func(
    'int flashcore_reference_plain(const flashcore_contiguous *inputs, void *out, int32_t threads)',
  ) as unknown as Native<[object, TensorBits, number]>;
  const normal = library.func(
    'int flashcore_reference_normal(const flashcore_normals *source, int32_t dtype, void *out, int64_t count)',
  ) as unknown as (source: object, dtype: number, out: TensorBits, count: number) => number;
  const compare = library.func(
    'int flashcore_compare_output(const flashcore_compared *output, const flashcore_comparison_rules *rules, const flashcore_comparison *results)',
  ) as unknown as (output: object, rules: object, results: object) => number;
  const maxAbsError = library.func(
    'int flashcore_max_abs_error(const flashcore_compared *output, double *out)',
  ) as unknown as (output: object, out: Float64Array) => number;
  /** Requires isPlainAttention(attention). */
  const contiguous = (inputs: TensorsByName, out: TensorBits, attention: ProblemCase) => {
    const [Q, K, V] = ['Q', 'K', 'V'].map((name) => entryOf(inputs, name)!) as [TensorBits, TensorBits, TensorBits];
    checkLengths(elementsOfTensor(outputOf(attention)), [Q, K, V, out]);
    const [B, H, S, D] = tensorNamed(attention, 'Q').dims;
    const { causal = 0, scale } = attention.values;
    return { dtype: ELEMENTS[attention.dtype].number, B, H, S, D, causal, scale, q: Q, k: K, v: V };
  };
  /** `held` keeps the inputs and outputs of other threads alive until these threads finish. */
  const beside = <Arguments extends readonly unknown[]>(
    native: Native<Arguments>,
    values: Arguments,
    held: unknown[],
  ): Promise<number> =>
    new Promise((resolve, reject) => {
      native.async(...values, (error, status) => {
        held.length = 0;
        if (error instanceof Error) reject(error);
        else resolve(status);
      });
    });
  /** Throws if the oracle does not know the problem's operation. */
  const operation = (computed: ProblemCase, inputs: TensorsByName, out: WantedOutputs) => {
    switch (computed.operation) {
      case 'attention':
        return { native: forward, struct: attentionStruct(computed, inputs, out) };
      case 'attention_backward':
        return { native: backward, struct: gradientsStruct(computed, inputs, out) };
      case 'merge':
        return { native: merge, struct: partsStruct(computed, inputs, out) };
      case 'own':
        throw new Error(`${computed.problem} has a reference of its own`);
    }
  };
  return {
    fp64: (inputs, computed) => {
      const { name } = outputOf(computed);
      const { answers, out } = emptyAnswers(computed, { rounding: false });
      const { native, struct } = operation(computed, inputs, out);
      return checked(native(struct, ALL_THREADS), answers.get(name)!.want);
    },
    answers: (inputs, computed, how = { rounding: true }) => {
      const { answers, out } = emptyAnswers(computed, how);
      const { native, struct } = operation(computed, inputs, out);
      return checked(native(struct, ALL_THREADS), answers);
    },
    answersBeside: async (inputs, computed) => {
      const { answers, out } = emptyAnswers(computed, { rounding: true });
      const { native, struct } = operation(computed, inputs, out);
      return checked(await beside(native, [struct, THREADS_BESIDE], [inputs, answers, struct]), answers);
    },
    derived: (inputs, computed) => {
      const wanted = computed.tensors.filter(({ draw }) => draw?.kind === 'derived');
      const { answers, out } = emptyOutputs(computed, wanted, { rounding: false });
      checked(forward(attentionStruct(computed, inputs, out), ALL_THREADS), undefined);
      return Object.fromEntries(
        wanted.map(({ name, dtype }) => [name, tensorOf(Float32Array.from(answers.get(name)!.want), floating(dtype))]),
      );
    },
    plain: (inputs, attention) => {
      const out = emptyBits(elementsOfTensor(outputOf(attention)), attention.dtype);
      return checked(plain(contiguous(inputs, out, attention), out, ALL_THREADS), out);
    },
    plainBeside: async (inputs, attention) => {
      const out = emptyBits(elementsOfTensor(outputOf(attention)), attention.dtype);
      const struct = contiguous(inputs, out, attention);
      return checked(await beside(plain, [struct, out, THREADS_BESIDE], [inputs, out, struct]), out);
    },
    normal: (values, { dtype, key, stream, scale }) =>
      checked(
        normal({ key, stream, scale, threads: ALL_THREADS }, ELEMENTS[dtype].number, values, values.length),
        values,
      ),
    compare: (got, want, how) => {
      const figures = new Float64Array(FIGURES.length);
      const [first, map, mapIndex] = [how.listed, how.blocks, how.blocks].map((length) => new Float64Array(length));
      const headMap = new Float32Array(how.headMaps ? how.heads * how.blocks : 0);
      checkLengths(how.heads * how.rows * how.columns, [got, want, ...(how.rounding ? [how.rounding] : [])]);
      const { rows: S, columns: D, heads, rounding = null, absolute, relative, explained, poison, listed } = how;
      const status = compare(
        { got, want, rounding, heads, S, D, dtype: ELEMENTS[how.dtype].number },
        { absolute, relative, explained, poison, listed, block_rows: how.blockRows, block_columns: how.blockColumns },
        { figures, first, map, map_index: mapIndex, head_map: how.headMaps ? headMap : null },
      );
      const named = Object.fromEntries(FIGURES.map((name, index) => [name, figures[index]!]));
      return checked(status, {
        figures: named as NativeComparison['figures'],
        first: first!.subarray(0, Math.min(how.listed, named['mismatches']!)),
        map: map!,
        mapIndex: mapIndex!,
        headMap,
      });
    },
    maxAbsError: (got, want, dtype) => {
      checkLengths(got.length, [want]);
      const out = new Float64Array(1);
      const compared = { got, want, rounding: null, heads: got.length, S: 1, D: 1, dtype: ELEMENTS[dtype].number };
      return checked(maxAbsError(compared, out), out)[0]!;
    },
    roundingRatio: (got, { want, rounding, roundingExplains }, output) => {
      checkLengths(elementsOfTensor(output), [got, want, rounding]);
      const { heads, rows: S, columns: D } = matricesOf(output);
      const compared = { got, want, rounding, heads, S, D, dtype: ELEMENTS[output.dtype].number };
      const out = new Float64Array(2);
      const status = roundingRatio(compared, roundingExplains ? ROWS_TOGETHER : 0, out);
      const [ratio, index] = checked(status, out);
      return { ratio: ratio!, index: index! };
    },
  };
}

/**
 * Outputs whose rounding is judged. LSE is not: its tolerance is in the order of its rounding. The rounding of
 * gradients does not follow from their values, because terms cancel out, so it also widens their tolerance.
 */
const ROUNDED: ReadonlySet<OperandName> = new Set(['o', 'd_q', 'd_k', 'd_v', 'd_sinks']);

/** Rows over which the errors of a gradient are averaged. */
const ROWS_TOGETHER = 16;

const emptyAnswers = (computed: ProblemCase, how: { rounding: boolean }) =>
  emptyOutputs(computed, outputsOf(computed), how);

/** Arrays to fill for the operation's tensors, keyed once by tensor name and once by operand. */
function emptyOutputs(
  { problem, operands: { operands } }: ProblemCase,
  wanted: readonly TensorExtent[],
  { rounding }: { rounding: boolean },
): { answers: Map<string, RoundedAnswer>; out: WantedOutputs } {
  const answers = new Map<string, RoundedAnswer>();
  const out: Partial<Record<OperandName, WantedOutput>> = {};
  const names = Object.keys(operands) as OperandName[];
  for (const tensor of wanted) {
    const operand = names.find((name) => operands[name]?.tensor === tensor.name);
    if (!operand) throw new Error(`the reference of ${problem} does not compute ${tensor.name}`);
    const elements = elementsOfTensor(tensor);
    const isRounded = rounding && ROUNDED.has(operand) && tensor.dtype !== 'int8'; // no model of rounding to integers
    const answer: RoundedAnswer = {
      // Separate ArrayBuffers, because V8 may move small arrays while another thread fills them.
      want: new Float64Array(new ArrayBuffer(8 * elements)),
      ...(isRounded && {
        rounding: new Float32Array(new ArrayBuffer(4 * elements)),
        roundingExplains: operand !== 'o',
      }),
    };
    answers.set(tensor.name, answer);
    out[operand] = answer;
  }
  return { answers, out };
}

function floating(dtype: ElementDtype): TensorDtype {
  if (dtype === 'int32') throw new Error('the reference computes no integers');
  return dtype;
}

function checkLengths(elements: number, tensors: readonly ArrayLike<number>[]): void {
  for (const tensor of tensors)
    if (tensor.length !== elements)
      throw new RangeError(`the reference wants tensors of ${elements} elements, got ${tensor.length}`);
}

function checked<Out>(status: number, out: Out): Out {
  if (status !== 0) throw new Error(`the CPU reference failed: ${STATUS[status] ?? status}`);
  return out;
}
