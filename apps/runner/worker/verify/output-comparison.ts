import { DTYPE_BYTES } from '@flashcore/shared/kernels';
import type { Reference } from '../driver/reference.ts';
import { filledElement, matricesOf, valueReader, type OutputExtent, type TensorBits } from '../driver/tensor-bits.ts';
import type { ElementError, Plain } from '@flashcore/shared/contract';
import type { ErrorBlocks, MismatchPlaces } from '../messages/verifying.ts';

/** The comparison of one run's output with the reference. */
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
  /** The error of `worst` divided by its limit; 0 if the output has no finite element. */
  worstOfLimit: number;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
  /** Norm of the output divided by the norm of the reference. */
  normRatio: number;
}

const MAX_LISTED = 16;
const MAP_ROWS = 16;
const MAP_COLUMNS = 8;
/** Maximum number of heads for which separate maps are kept: 32 KiB. */
const MOST_HEADS = 64;

/** Bits that no element has, or in 32 bits a NaN that no run produces. */
const NO_ELEMENT = { 1: 0x1_0000, 2: 0x1_0000, 4: 0xffff_ffff } as const;

export interface CompareOptions {
  output: OutputExtent;
  /** The 16-bit NaN pattern that the output was filled with before the run; undefined: every element was written. */
  poison: number | undefined;
  tolerance: { absolute: number; relative: number };
  /** An element may also be off by `explained` times its rounding. */
  rounding?: Float32Array;
  explained?: number;
}

/**
 * Compares an output with the fp64 reference, element by element. NaN, Inf and unwritten elements are mismatches and do
 * not enter the error figures, which cover the finite elements. The error map has NaN for a block with an element that
 * is not finite.
 */
export function compareOutput(
  reference: Pick<Reference, 'compare'>,
  got: TensorBits,
  want: Float64Array,
  { output, poison, tolerance, rounding, explained = 0 }: CompareOptions,
): Comparison {
  const { dtype, dims } = output;
  const extent = matricesOf(output);
  const { heads } = extent;
  const blockRows = Math.ceil(extent.rows / MAP_ROWS);
  const blockColumns = Math.ceil(extent.columns / MAP_COLUMNS);
  const rows = Math.ceil(extent.rows / blockRows);
  const columns = Math.ceil(extent.columns / blockColumns);
  const { figures, first, map, mapIndex, headMap } = reference.compare(got, want, {
    heads,
    rows: extent.rows,
    columns: extent.columns,
    dtype,
    poison: poison === undefined ? NO_ELEMENT[DTYPE_BYTES[dtype]] : filledElement(poison, dtype),
    ...tolerance,
    rounding,
    explained,
    blockRows,
    blockColumns,
    blocks: rows * columns,
    listed: MAX_LISTED,
    headMaps: heads <= MOST_HEADS,
  });
  const grid = { blockRows, blockColumns, columns, blocks: rows * columns };
  const { worstIndex, gotSquares, wantSquares, ...counted } = figures;
  const valueAt = valueReader(got, dtype);
  const elementAt = (index: number): Plain<ElementError> => placed(dims, index, valueAt(index), want[index]!);
  const worst = worstIndex >= 0 ? elementAt(worstIndex) : undefined;
  const isOutside = outsideTolerance(valueAt, { want, tolerance, rounding, explained });
  const outside = counted.mismatches === 0 ? [] : outsideInBlocks(extent, grid, isOutside);
  return {
    ...counted,
    elements: got.length,
    ...(worst && { worst }),
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
      outputDims: dims.map(BigInt),
      outside: Array.from(outside, BigInt),
    },
    normRatio: wantSquares === 0 ? 1 : Math.sqrt(gotSquares / wantSquares),
  };
}

/** An output may have millions of wrong rows, and their indices would not fit a message. */
const MOST_PLACES = 4_096;
/** Above this number of elements, looking at each takes seconds. */
const MOST_LOOKED_AT = 2 ** 26;

interface MatrixExtent {
  heads: number;
  rows: number;
  columns: number;
}

/** The blocks of the error map. */
interface BlockGrid {
  blockRows: number;
  blockColumns: number;
  /** Blocks next to each other. */
  columns: number;
  blocks: number;
}

/** The elements outside the tolerance in each block, over all heads; empty for an output that is too large. */
function outsideInBlocks(
  { heads, rows, columns }: MatrixExtent,
  { blockRows, blockColumns, columns: blocksInRow, blocks }: BlockGrid,
  isOutside: (index: number) => boolean,
): Float64Array {
  const elements = heads * rows * columns;
  if (elements > MOST_LOOKED_AT) return new Float64Array();
  const inBlocks = new Float64Array(blocks);
  for (let index = 0; index < elements; index += 1) {
    if (!isOutside(index)) continue;
    const [row, column] = [Math.floor(index / columns) % rows, index % columns];
    inBlocks[Math.floor(row / blockRows) * blocksInRow + Math.floor(column / blockColumns)]! += 1;
  }
  return inBlocks;
}

interface ElementLimits extends Pick<CompareOptions, 'tolerance' | 'rounding' | 'explained'> {
  want: Float64Array;
}

const limitOf = (index: number, { want, tolerance, rounding, explained = 0 }: ElementLimits): number =>
  Math.max(tolerance.absolute + tolerance.relative * Math.abs(want[index]!), explained * (rounding?.[index] ?? 0));

function outsideTolerance(valueAt: (index: number) => number, limits: ElementLimits): (index: number) => boolean {
  return (index) => {
    const [value, wanted] = [valueAt(index), limits.want[index]!];
    const error = value === wanted ? 0 : Math.abs(value - wanted);
    // A finite value where an infinity is expected: the error and the limit are both infinite.
    return !(error < Infinity && error <= limitOf(index, limits));
  };
}

export interface PlacesOptions extends Omit<CompareOptions, 'poison' | 'rounding'> {
  /** The error that rounding explains; undefined if only the tolerance counts. */
  modelled: Float32Array | undefined;
  /** The limit of a row's error, in units of what rounding explains, as a root mean square. */
  limit: number;
}

/** An element counts as wrong if its error is this many times the limit on the mean error of a row. */
const ELEMENT_OF_ROW = 4;

/**
 * Where an output is wrong. An error beyond rounding counts, too: a mistake in every row puts only some elements
 * outside the tolerance, and their rows are like all others. Undefined for an output that is too large.
 */
export function wrongPlaces(
  got: TensorBits,
  want: Float64Array,
  { output, tolerance, explained = 0, modelled, limit }: PlacesOptions,
): MismatchPlaces | undefined {
  const { heads, rows, columns } = matricesOf(output);
  if (want.length > MOST_LOOKED_AT) return undefined;
  const valueAt = valueReader(got, output.dtype);
  const isOutside = outsideTolerance(valueAt, {
    want,
    tolerance,
    explained,
    rounding: explained > 0 ? modelled : undefined,
  });
  const ratioOf = (index: number): number => {
    const rounding = modelled?.[index] ?? 0;
    return rounding > 0 ? Math.abs(valueAt(index) - want[index]!) / rounding : 0;
  };
  const [inHeads, inRows, inColumns] = [new Uint8Array(heads), new Uint8Array(rows), new Uint8Array(columns)];
  for (let row = 0; row < heads * rows; row += 1) {
    let [squares, wrong] = [0, 0];
    for (let column = 0; column < columns; column += 1) {
      const index = row * columns + column;
      const ratio = ratioOf(index);
      squares += ratio ** 2;
      if (!isOutside(index) && !(ratio > ELEMENT_OF_ROW * limit)) continue;
      inColumns[column] = 1;
      wrong += 1;
    }
    const isBeyond = squares > columns * limit ** 2;
    // A small error in all of a row.
    if (isBeyond && wrong === 0) inColumns.fill(1);
    if (!isBeyond && wrong === 0) continue;
    inHeads[Math.floor(row / rows)] = 1;
    inRows[row % rows] = 1;
  }
  const marked = { heads: markedIn(inHeads), rows: markedIn(inRows), columns: markedIn(inColumns) };
  return { ...marked, ofHeads: heads, ofRows: rows, ofColumns: columns };
}

/** The marked indices; empty if there are too many to send. */
function markedIn(marks: Uint8Array): number[] {
  const indices: number[] = [];
  for (let index = marks.indexOf(1); index >= 0; index = marks.indexOf(1, index + 1)) {
    if (indices.length === MOST_PLACES) return [];
    indices.push(index);
  }
  return indices;
}

/** Splits an index into its last four coordinates; coordinates that the output lacks are 0. */
function placed(dims: readonly number[], index: number, got: number, want: number): Plain<ElementError> {
  let rest = index;
  const [column, row, head, batch] = [0, 1, 2, 3].map((place) => {
    const extent = place < 3 ? (dims.at(-1 - place) ?? 1) : Infinity;
    const at = rest % extent;
    rest = Math.floor(rest / extent);
    return at;
  }) as [number, number, number, number];
  return { batch, head, row, column, got, want };
}
