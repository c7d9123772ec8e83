import type { HalfBits } from '../driver/reference.ts';
import type { ElementError } from '@flashcore/shared/contract';
import type { ShapeFields } from '@flashcore/shared/kernels';
import type { ErrorBlocks, Plain } from '../messages.ts';

/** What one run's output is against the reference. */
export interface Comparison {
  maxAbsError: number;
  sumAbsError: number;
  sumSquareError: number;
  maxRelError: number;
  p999AbsError: number;
  mismatches: number;
  nanCount: number;
  infCount: number;
  unwrittenCount: number;
  elements: number;
  worst?: Plain<ElementError>;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
  /** Root of the sum of squares of the output over that of the reference. */
  normRatio: number;
}

const MAX_LISTED = 16;
const MAP_ROWS = 16;
const MAP_COLUMNS = 8;
/** Maps of single heads are kept of so many at most: 32 KiB. */
const MOST_HEADS = 64;
/** Below it fp16 has no full precision left, and a relative error says nothing. */
const SMALLEST_NORMAL_FP16 = 2 ** -14;

/** fp16 bits → value. A table is three times faster here than Float16Array's conversion, and takes 256 KB. */
const HALF_VALUES = new Float32Array(new Float16Array(Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).buffer));

export interface CompareOptions {
  shape: ShapeFields;
  /** The fp16 NaN that the output was filled with before the run. */
  poison: number;
  tolerance: { absolute: number; relative: number };
}

/**
 * Compares an output with the fp64 reference, element by element. NaN, Inf and unwritten elements are mismatches; they
 * do not enter
 * the error figures, which are over the finite elements. An element is NaN in the map where one of its block is not
 * finite.
 */
export function compareOutput(got: HalfBits, want: Float64Array, options: CompareOptions): Comparison {
  const { shape, poison } = options;
  const { absolute, relative } = options.tolerance;
  const errors = new Float32Array(got.length);
  const map = new MapBuilder(shape);
  const result = emptyComparison(got.length);
  let finite = 0;
  let worstIndex = -1;
  let gotSquares = 0;
  let wantSquares = 0;
  for (let i = 0; i < got.length; ++i) {
    const bits = got[i]!;
    const value = HALF_VALUES[bits]!;
    const reference = want[i]!;
    wantSquares += reference * reference;
    const error = Math.abs(value - reference);
    if (!Number.isFinite(error)) {
      if (bits === poison) result.unwrittenCount += 1;
      else if (Number.isNaN(value)) result.nanCount += 1;
      else result.infCount += 1;
      note(result, i, value, reference, shape);
      map.add(i, NaN);
      continue;
    }
    gotSquares += value * value;
    errors[finite++] = error;
    result.sumAbsError += error;
    result.sumSquareError += error * error;
    if (error > result.maxAbsError || worstIndex < 0) {
      result.maxAbsError = error;
      worstIndex = i;
    }
    const size = Math.abs(reference);
    const relativeError = error / (size > SMALLEST_NORMAL_FP16 ? size : SMALLEST_NORMAL_FP16);
    if (relativeError > result.maxRelError) result.maxRelError = relativeError;
    if (error > absolute + relative * size) note(result, i, value, reference, shape);
    map.add(i, error);
  }
  if (worstIndex >= 0) result.worst = elementAt(worstIndex, HALF_VALUES[got[worstIndex]!]!, want[worstIndex]!, shape);
  result.p999AbsError =
    finite === 0 ? 0 : nthSmallest(errors.subarray(0, finite), Math.min(finite - 1, Math.ceil(finite * 0.999) - 1));
  result.errorMap = map.finish(got, want);
  result.normRatio = wantSquares === 0 ? 1 : Math.sqrt(gotSquares / wantSquares);
  return result;
}

/** max|fp16 - fp64|, the yardstick of FlashAttention's rule. */
export function maxAbsError(got: HalfBits, want: Float64Array): number {
  let most = 0;
  for (let i = 0; i < got.length; ++i) {
    const error = Math.abs(HALF_VALUES[got[i]!]! - want[i]!);
    if (error > most) most = error;
  }
  return most;
}

function emptyComparison(elements: number): Comparison {
  return {
    maxAbsError: 0,
    sumAbsError: 0,
    sumSquareError: 0,
    maxRelError: 0,
    p999AbsError: 0,
    mismatches: 0,
    nanCount: 0,
    infCount: 0,
    unwrittenCount: 0,
    elements,
    firstMismatches: [],
    errorMap: {
      rows: 0,
      columns: 0,
      blockRows: 0,
      blockColumns: 0,
      maxAbsError: [],
      worstIndex: [],
      worstGot: [],
      worstWant: [],
      headMaxAbsError: [],
    },
    normRatio: 1,
  };
}

function note(result: Comparison, index: number, got: number, want: number, shape: ShapeFields): void {
  result.mismatches += 1;
  if (result.firstMismatches.length < MAX_LISTED) result.firstMismatches.push(elementAt(index, got, want, shape));
}

function elementAt(index: number, got: number, want: number, shape: ShapeFields): Plain<ElementError> {
  const column = index % shape.headDim;
  const row = Math.floor(index / shape.headDim) % shape.sequenceLength;
  const head = Math.floor(index / (shape.headDim * shape.sequenceLength)) % shape.heads;
  const batch = Math.floor(index / (shape.headDim * shape.sequenceLength * shape.heads));
  return { batch, head, row, column, got, want };
}

/** Largest error in blocks of [S, D], over all batches and heads. */
class MapBuilder {
  readonly #headDim: number;
  readonly #headElements: number;
  readonly #map: ErrorBlocks;
  readonly #heads: Float32Array;

  constructor(shape: ShapeFields) {
    const blockRows = Math.ceil(shape.sequenceLength / MAP_ROWS);
    const blockColumns = Math.ceil(shape.headDim / MAP_COLUMNS);
    const rows = Math.ceil(shape.sequenceLength / blockRows);
    const columns = Math.ceil(shape.headDim / blockColumns);
    this.#headDim = shape.headDim;
    this.#headElements = shape.headDim * shape.sequenceLength;
    // -1: below every error, so that each block has an element even where all are exact.
    this.#map = {
      rows,
      columns,
      blockRows,
      blockColumns,
      maxAbsError: new Array<number>(rows * columns).fill(-1),
      worstIndex: new Array<number>(rows * columns).fill(0),
      worstGot: [],
      worstWant: [],
      headMaxAbsError: [],
    };
    const heads = shape.batch * shape.heads;
    this.#heads = new Float32Array(heads <= MOST_HEADS ? heads * rows * columns : 0);
  }

  add(index: number, error: number): void {
    const map = this.#map;
    const inHead = index % this.#headElements;
    const row = Math.floor(inHead / this.#headDim / map.blockRows);
    const block = row * map.columns + Math.floor((inHead % this.#headDim) / map.blockColumns);
    const most = map.maxAbsError[block]!;
    // NaN stays: no comparison with it holds.
    if (error > most || (Number.isNaN(error) && !Number.isNaN(most))) {
      map.maxAbsError[block] = error;
      map.worstIndex[block] = index;
    }
    if (this.#heads.length === 0) return;
    const inHeads = Math.floor(index / this.#headElements) * map.maxAbsError.length + block;
    const headMost = this.#heads[inHeads]!;
    if (error > headMost || Number.isNaN(error)) this.#heads[inHeads] = error;
  }

  /** With what was written, and wanted, at the worst element of each block. */
  finish(got: HalfBits, want: Float64Array): ErrorBlocks {
    const { worstIndex } = this.#map;
    return {
      ...this.#map,
      worstGot: worstIndex.map((index) => HALF_VALUES[got[index]!]!),
      worstWant: worstIndex.map((index) => want[index]!),
      headMaxAbsError: Array.from(this.#heads),
    };
  }
}

/** The n-th smallest of `values` (from 0), by Hoare's selection; reorders them. */
export function nthSmallest(values: Float32Array, n: number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const pivot = values[(low + high) >> 1]!;
    let left = low;
    let right = high;
    while (left <= right) {
      while (values[left]! < pivot) left += 1;
      while (values[right]! > pivot) right -= 1;
      if (left > right) break;
      const swapped = values[left]!;
      values[left++] = values[right]!;
      values[right--] = swapped;
    }
    if (n <= right) high = right;
    else if (n >= left) low = left;
    else return values[n]!;
  }
  return values[n]!;
}
