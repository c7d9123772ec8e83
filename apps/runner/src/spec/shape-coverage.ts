/**
 * Which of many shapes a run takes. A kernel can be wrong on any combination of sizes, and most mistakes need two or
 * three at a time (a causal mask and a ragged end, odd heads and many of them): so every pair of classes that any of
 * the shapes has is in a run, as far as its budget goes, and as many triples as there is room for.
 */
import { attention, caseFlops, type ShapeFields } from '@flashcore/shared/kernels';

export interface Coverage {
  /** The most keys and heads that a case has, and the heads at which the device's CTAs begin to take turns. */
  longestCase: number;
  mostHeadsOfACase: number;
  wave: number;
  manyHeads: number;
  /** Of the kernel, ascending. */
  headDims: readonly number[];
  tiles: readonly number[];
  /** The most shapes, and the most that they may cost together. */
  shapes: number;
  flops: number;
}

/** More head dimensions than these are classed by their place among the kernel's. */
const HEAD_DIM_CLASSES = 4;
/** What a new triple, and an extent that no other shape has, are worth in pairs; and all flops of the budget. */
const TRIPLE = 1 / 4;
const NEW_EXTENT = 1;
const WHOLE_BUDGET = 8;

interface Scored<Extents> {
  shape: Extents;
  flops: number;
  pairs: readonly string[];
  triples: readonly string[];
  extents: readonly string[];
}

/** The shapes of a run, out of `pool`, in the order in which they are chosen. */
export function coveringShapes<Extents extends ShapeFields>(pool: readonly Extents[], coverage: Coverage): Extents[] {
  const left = new Set(pool.map((shape) => scored(shape, coverage)));
  const covered = new Set<string>();
  const chosen: Extents[] = [];
  let flops = coverage.flops;
  const uncovered = (keys: readonly string[]): number => keys.filter((key) => !covered.has(key)).length;
  const worth = (each: Scored<Extents>): number =>
    uncovered(each.pairs) +
    TRIPLE * uncovered(each.triples) +
    NEW_EXTENT * uncovered(each.extents) -
    (WHOLE_BUDGET * each.flops) / coverage.flops;
  while (chosen.length < coverage.shapes) {
    let best: { each: Scored<Extents>; worth: number } | undefined;
    for (const each of left) {
      if (each.flops > flops) continue;
      const now = worth(each);
      if (best === undefined || now > best.worth) best = { each, worth: now };
    }
    if (best === undefined) break;
    const { each } = best;
    left.delete(each);
    chosen.push(each.shape);
    flops -= each.flops;
    for (const key of [...each.pairs, ...each.triples, ...each.extents]) covered.add(key);
  }
  return chosen;
}

function scored<Extents extends ShapeFields>(shape: Extents, coverage: Coverage): Scored<Extents> {
  const classes = classesOf(shape, coverage);
  const pairs = classes.flatMap((a, i) => classes.slice(i + 1).map((b) => `${a} ${b}`));
  const triples = classes.flatMap((a, i) =>
    classes.slice(i + 1).flatMap((b, j) => classes.slice(i + j + 2).map((c) => `${a} ${b} ${c}`)),
  );
  const extents = [`D=${shape.headDim}`, `S%16=${shape.sequenceLength % 16}`];
  return { shape, flops: caseFlops(attention(), shape), pairs, triples, extents };
}

/** One for each axis. */
function classesOf(
  shape: ShapeFields,
  { longestCase, mostHeadsOfACase, wave, manyHeads, headDims, tiles }: Coverage,
): string[] {
  const { batch, heads, sequenceLength, headDim, causal } = shape;
  const longestTile = Math.max(...tiles);
  const headDimClass =
    headDims.length <= HEAD_DIM_CLASSES
      ? headDim
      : Math.floor((HEAD_DIM_CLASSES * headDims.indexOf(headDim)) / headDims.length);
  return [
    `batch ${rank(batch, [1, 4])}`,
    `heads ${heads === 1 ? 'one' : ['even', 'odd'][heads % 2]}`,
    `all ${rank(batch * heads, [4, mostHeadsOfACase, wave, manyHeads])}`,
    `length ${rank(sequenceLength, [16, 128, longestCase / 2, longestCase, 2 * longestCase, 4 * longestCase])}`,
    `end ${endOf(sequenceLength, longestTile)}`,
    `width ${headDimClass}`,
    `mask ${causal}`,
  ];
}

/** How many of the limits, which ascend, a value is beyond. */
const rank = (value: number, limits: readonly number[]): number => limits.filter((limit) => value > limit).length;

/** In a tile: at its end, one short of it, one beyond, or somewhere. */
function endOf(length: number, tile: number): string {
  const rest = length % tile;
  if (rest === 0) return 'full';
  if (rest === tile - 1) return 'short';
  return rest === 1 && length > tile ? 'beyond' : 'ragged';
}
