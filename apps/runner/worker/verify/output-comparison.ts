import type { Reference } from '../driver/reference.ts';
import { filledElement, valueReader, type TensorBits } from '../driver/tensor-bits.ts';
import type { ElementError } from '@flashcore/shared/contract';
import type { ShapeFields, TensorDtype } from '@flashcore/shared/kernels';
import type { Plain } from '../messages/plain.ts';
import type { ErrorBlocks } from '../messages/verifying.ts';

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

export interface CompareOptions {
  shape: ShapeFields;
  /** Of the output. */
  dtype: TensorDtype;
  /** The 16-bit NaN pattern that the output was filled with before the run. */
  poison: number;
  tolerance: { absolute: number; relative: number };
}

/**
 * Compares an output with the fp64 reference, element by element. NaN, Inf and unwritten elements are mismatches; they
 * do not enter the error figures, which are over the finite elements. An element is NaN in the map where one of its
 * block is not finite.
 */
export function compareOutput(
  reference: Pick<Reference, 'compare'>,
  got: TensorBits,
  want: Float64Array,
  { shape, dtype, poison, tolerance }: CompareOptions,
): Comparison {
  const blockRows = Math.ceil(shape.sequenceLength / MAP_ROWS);
  const blockColumns = Math.ceil(shape.headDim / MAP_COLUMNS);
  const rows = Math.ceil(shape.sequenceLength / blockRows);
  const columns = Math.ceil(shape.headDim / blockColumns);
  const heads = shape.batch * shape.heads;
  const { figures, first, map, mapIndex, headMap } = reference.compare(got, want, {
    heads,
    rows: shape.sequenceLength,
    columns: shape.headDim,
    dtype,
    poison: filledElement(poison, dtype),
    ...tolerance,
    blockRows,
    blockColumns,
    blocks: rows * columns,
    listed: MAX_LISTED,
    headMaps: heads <= MOST_HEADS,
  });
  const { worstIndex, gotSquares, wantSquares, ...counted } = figures;
  const valueAt = valueReader(got, dtype);
  const elementAt = (index: number): Plain<ElementError> => placed(shape, index, valueAt(index), want[index]!);
  return {
    ...counted,
    elements: got.length,
    ...(worstIndex >= 0 && { worst: elementAt(worstIndex) }),
    firstMismatches: Array.from(first, elementAt),
    errorMap: {
      rows,
      columns,
      blockRows,
      blockColumns,
      maxAbsError: Array.from(map),
      worstIndex: Array.from(mapIndex),
      worstGot: Array.from(mapIndex, valueAt),
      worstWant: Array.from(mapIndex, (index) => want[index]!),
      headMaxAbsError: Array.from(headMap),
    },
    normRatio: wantSquares === 0 ? 1 : Math.sqrt(gotSquares / wantSquares),
  };
}

function placed(shape: ShapeFields, index: number, got: number, want: number): Plain<ElementError> {
  const column = index % shape.headDim;
  const row = Math.floor(index / shape.headDim) % shape.sequenceLength;
  const head = Math.floor(index / (shape.headDim * shape.sequenceLength)) % shape.heads;
  const batch = Math.floor(index / (shape.headDim * shape.sequenceLength * shape.heads));
  return { batch, head, row, column, got, want };
}
