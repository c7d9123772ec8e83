import { availableParallelism } from 'node:os';
import koffi from 'koffi';
import type { ShapeFields, TensorDtype } from '@flashcore/shared/kernels';
import { elementsOf, emptyTensor, type TensorBits } from './tensor-bits.ts';

export interface AttentionInputs {
  dtype: TensorDtype;
  Q: TensorBits;
  K: TensorBits;
  V: TensorBits;
}

/** Attention on the CPU (kernels/reference/attention_reference.h), through its C ABI. */
export interface Reference {
  /** softmax(Q Kᵀ / sqrt(D)) V in double precision; [B, H, S, D]. */
  fp64(inputs: AttentionInputs, shape: ShapeFields): Float64Array;
  /** The same as a plain implementation in the inputs' dtype computes it. */
  plain(inputs: AttentionInputs, shape: ShapeFields): TensorBits;
  /** Both on threads beside this one. */
  fp64Beside(inputs: AttentionInputs, shape: ShapeFields): Promise<Float64Array>;
  plainBeside(inputs: AttentionInputs, shape: ShapeFields): Promise<TensorBits>;
  /**
   * Fills with N(0, 1) times scale, as CounterRandom.fillNormal() with this key and stream does: the same bits on all
   * threads of the host.
   */
  normal(values: TensorBits, source: NormalSource): TensorBits;
  /** An output beside the fp64 reference, element by element (kernels/reference/output_comparison.h). */
  compare(got: TensorBits, want: Float64Array, how: ComparedTensors): NativeComparison;
  /** max|got - want|. */
  maxAbsError(got: TensorBits, want: Float64Array, dtype: TensorDtype): number;
}

export interface ComparedTensors {
  /** Of the output. */
  dtype: TensorDtype;
  /** Batches times heads. */
  heads: number;
  rows: number;
  columns: number;
  /** The NaN that each element of the output was before the run. */
  poison: number;
  absolute: number;
  relative: number;
  /** Extent of the error map's blocks. */
  blockRows: number;
  blockColumns: number;
  /** Blocks of a head. */
  blocks: number;
  /** Indices of mismatches that are told. */
  listed: number;
  /** Whether each head has a map of its own. */
  headMaps: boolean;
}

/** What output_comparison.h says of each. */
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
  'maxAbsError',
  'sumAbsError',
  'sumSquareError',
  'maxRelError',
  'p999AbsError',
  'gotSquares',
  'wantSquares',
] as const;

export interface NormalSource {
  /** Of the values. */
  dtype: TensorDtype;
  key: number;
  stream: number;
  scale: number;
}

const SIGNATURE =
  '(int32_t dtype, const void *q, const void *k, const void *v, void *out, int32_t B, int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads)';
const DTYPES: Readonly<Record<TensorDtype, number>> = { fp16: 0, bf16: 1, fp32: 2 };
const STATUS = ['OK', 'BAD_ARGUMENT', 'OUT_OF_MEMORY'];

type ReferenceArguments = readonly [
  dtype: number,
  q: TensorBits,
  k: TensorBits,
  v: TensorBits,
  out: Float64Array | TensorBits,
  ...numbers: number[],
];

interface NativeReference {
  (...values: ReferenceArguments): number;
  async: (...values: [...ReferenceArguments, done: (error: Error | null, status: number) => void]) => void;
}

type NativeNormal = (
  dtype: number,
  out: TensorBits,
  count: number,
  key: number,
  stream: number,
  scale: number,
  threads: number,
) => number;

type NativeCompare = (...args: (TensorBits | Float64Array | Float32Array | number | null)[]) => number;

/** Beside compilers, which want as many: those that share a core with another slow it down, whatever their priority. */
const THREADS_BESIDE = Math.max(1, availableParallelism() >> 1);

export function loadReference(path: string): Reference {
  const library = koffi.load(path);
  const fp64 = library.func(`int flashcore_reference_fp64${SIGNATURE}`) as unknown as NativeReference;
  const plain = library.func(`int flashcore_reference_plain${SIGNATURE}`) as unknown as NativeReference;
  const normal = library.func(
    'int flashcore_reference_normal(int32_t dtype, void *out, int64_t count, uint32_t key, uint32_t stream, double scale, int32_t threads)',
  ) as unknown as NativeNormal;
  const compare = library.func(
    'int flashcore_compare_output(int32_t dtype, const void *got, const void *want, int32_t heads, int32_t S, int32_t D, uint32_t poison, double absolute, double relative, int32_t block_rows, int32_t block_columns, void *figures, void *first, int32_t listed, void *map, void *map_index, void *head_map)',
  ) as unknown as NativeCompare;
  const maxAbsError = library.func(
    'int flashcore_max_abs_error(int32_t dtype, const void *got, const void *want, int64_t count, void *out)',
  ) as unknown as NativeCompare;
  const argumentsFor = (inputs: AttentionInputs, out: Float64Array | TensorBits, shape: ShapeFields, threads = 0) => {
    checkLengths(elementsOf(shape), [inputs.Q, inputs.K, inputs.V, out]);
    const { batch, heads, sequenceLength, headDim, causal } = shape;
    const { dtype, Q, K, V } = inputs;
    const extent = [batch, heads, sequenceLength, headDim] as const;
    // 0 threads: as many as the machine has.
    return [DTYPES[dtype], Q, K, V, out, ...extent, scaleOf(shape), causal ? 1 : 0, threads] as const;
  };
  const call = <Out extends Float64Array | TensorBits>(
    native: NativeReference,
    inputs: AttentionInputs,
    out: Out,
    shape: ShapeFields,
  ): Out => checked(native(...argumentsFor(inputs, out, shape)), out);
  const callBeside = <Out extends Float64Array | TensorBits>(
    native: NativeReference,
    inputs: AttentionInputs,
    out: Out,
    shape: ShapeFields,
  ): Promise<Out> =>
    new Promise<readonly [number, AttentionInputs]>((resolve, reject) => {
      native.async(...argumentsFor(inputs, out, shape, THREADS_BESIDE), (error, status) => {
        // The tensors are held until here: the threads read and write them.
        if (error) reject(error);
        else resolve([status, inputs] as const);
      });
    }).then(([status]) => checked(status, out));
  return {
    fp64: (inputs, shape) => call(fp64, inputs, new Float64Array(elementsOf(shape)), shape),
    plain: (inputs, shape) => call(plain, inputs, emptyTensor({ shape, dtype: inputs.dtype }), shape),
    fp64Beside: (inputs, shape) => callBeside(fp64, inputs, new Float64Array(elementsOf(shape)), shape),
    plainBeside: (inputs, shape) => callBeside(plain, inputs, emptyTensor({ shape, dtype: inputs.dtype }), shape),
    normal: (values, { dtype, key, stream, scale }) =>
      checked(normal(DTYPES[dtype], values, values.length, key, stream, scale, 0), values),
    compare: (got, want, how) => {
      const figures = new Float64Array(FIGURES.length);
      const [first, map, mapIndex] = [how.listed, how.blocks, how.blocks].map((length) => new Float64Array(length));
      const headMap = new Float32Array(how.headMaps ? how.heads * how.blocks : 0);
      checkLengths(how.heads * how.rows * how.columns, [got, want]);
      const status = compare(
        DTYPES[how.dtype],
        got,
        want,
        how.heads,
        how.rows,
        how.columns,
        how.poison,
        how.absolute,
        how.relative,
        how.blockRows,
        how.blockColumns,
        figures,
        first!,
        how.listed,
        map!,
        mapIndex!,
        how.headMaps ? headMap : null,
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
      return checked(maxAbsError(DTYPES[dtype], got, want, got.length, out), out)[0]!;
    },
  };
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

/** 1 / sqrt(D) as the float that the kernel gets. */
export function scaleOf(shape: ShapeFields): number {
  return Math.fround(1 / Math.sqrt(shape.headDim));
}
