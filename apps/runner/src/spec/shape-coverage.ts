/**
 * Which of many shapes a run takes. A kernel can be wrong on any combination of sizes, and most mistakes need two or
 * three at a time (a causal mask and a ragged end, odd heads and many of them): so every pair of classes that any of
 * the shapes has is in a run, as far as its budget goes, and as many triples as there is room for.
 */
import { type CaseValues, type Problem, valueOr } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';

/** Limits of classes, each ascending. */
export interface SizeClasses {
  tiles: readonly number[];
  lengths: readonly number[];
  /** Of the product of all counts. */
  counts: readonly number[];
  /** All widths that the kernel takes, by axis. */
  widths: ReadonlyMap<string, readonly number[]>;
  /** Axes and attributes of the kernel. */
  uses: ReadonlySet<string>;
}

/** More widths than these are classed by their place among the kernel's. */
const WIDTH_CLASSES = 4;
/** Beyond it a count is many. */
const FEW = 4;
/** Constants beyond it count threads more often than rows or keys of a tile. */
const MOST_OF_A_TILE = 128;
/** What a new triple, and an extent that no other shape has, are worth in pairs; and all flops of the budget. */
const TRIPLE = 1 / 4;
const NEW_EXTENT = 1;
const WHOLE_BUDGET = 8;

interface Classed {
  /** One for each axis and attribute. */
  classes: readonly string[];
  extents: readonly string[];
}

export interface Classified<Shape> extends Classed {
  shape: Shape;
  flops: number;
}

interface Scored<Shape> extends Classified<Shape> {
  pairs: readonly string[];
  triples: readonly string[];
  /** Its worth when it was last computed. The more is covered, the less a shape is worth, so this is an upper bound. */
  atMost: number;
}

/** Chooses a run's shapes from `pool`, the most useful first, within `most` shapes and flops. */
export function coveringShapes<Shape>(
  pool: readonly Classified<Shape>[],
  most: { shapes: number; flops: number },
): Shape[] {
  const left = pool.map(scored);
  const covered = new Set<string>();
  const chosen: Shape[] = [];
  let { flops } = most;
  const uncovered = (keys: readonly string[]): number => keys.filter((key) => !covered.has(key)).length;
  const worth = (each: Scored<Shape>): number =>
    uncovered(each.pairs) +
    TRIPLE * uncovered(each.triples) +
    NEW_EXTENT * uncovered(each.extents) -
    (WHOLE_BUDGET * each.flops) / most.flops;
  while (chosen.length < most.shapes) {
    let best: { each: Scored<Shape>; worth: number } | undefined;
    left.sort((a, b) => b.atMost - a.atMost);
    for (const each of left) {
      if (each.flops > flops) continue;
      if (best !== undefined && each.atMost <= best.worth) break;
      each.atMost = worth(each);
      if (best === undefined || each.atMost > best.worth) best = { each, worth: each.atMost };
    }
    if (best === undefined) break;
    const { each } = best;
    left.splice(left.indexOf(each), 1);
    chosen.push(each.shape);
    flops -= each.flops;
    for (const key of [...each.pairs, ...each.triples, ...each.extents]) covered.add(key);
  }
  return chosen;
}

function scored<Shape>(each: Classified<Shape>): Scored<Shape> {
  const { classes } = each;
  const pairs = classes.flatMap((a, i) => classes.slice(i + 1).map((b) => `${a} ${b}`));
  const triples = classes.flatMap((a, i) =>
    classes.slice(i + 1).flatMap((b, j) => classes.slice(i + j + 2).map((c) => `${a} ${b} ${c}`)),
  );
  return { ...each, pairs, triples, atMost: Infinity };
}

/** The classes of a case, whose values are complete. */
export function shapeClasses(problem: Problem, values: CaseValues, sizes: SizeClasses): Classed {
  const axes = problem.axes.filter(({ name, default: fallback }) => !fallback || sizes.uses.has(name));
  const counts = axes.filter(({ draw, default: fallback }) => draw === 'count' && !fallback);
  const tile = Math.max(...sizes.tiles.filter((each) => each <= MOST_OF_A_TILE), Math.min(...sizes.tiles));
  const ofAxes = axes.flatMap(({ name, draw, default: fallback }) => {
    const extent = entryOf(values, name)!;
    // A head of K and V for all heads of Q, and one for some of them, are classes of their own.
    const isOne = draw === 'divisor' && extent === 1;
    const beside = fallback ? [`${name} ${isOne ? 'one' : Math.sign(extent - valueOr(extent, fallback, values))}`] : [];
    if (draw === 'width') return [...beside, `${name} width ${widthClass(extent, sizes.widths.get(name)!)}`];
    if (draw === 'length')
      return [...beside, `${name} ${rank(extent, sizes.lengths)}`, `${name} end ${endOf(extent, tile)}`];
    // A kernel that works on pairs of heads or rows can be wrong for an odd number of them.
    return fallback ? beside : [`${name} ${name === counts.at(-1)!.name ? parity(extent) : rank(extent, [1, FEW])}`];
  });
  const all = counts.reduce((product, { name }) => product * entryOf(values, name)!, 1);
  return {
    classes: [
      ...ofAxes,
      ...(counts.length > 0 ? [`all ${rank(all, sizes.counts)}`] : []),
      ...problem.attributes
        .filter(({ name, draw }) => draw.length > 0 && sizes.uses.has(name))
        .map(({ name }) => `${name} ${entryOf(values, name)}`),
    ],
    extents: axes.flatMap(({ name, draw }) => {
      if (draw === 'width') return [`${name}=${entryOf(values, name)}`];
      return draw === 'length' ? [`${name}%16=${entryOf(values, name)! % 16}`] : [];
    }),
  };
}

const widthClass = (width: number, widths: readonly number[]): number =>
  widths.length <= WIDTH_CLASSES ? width : Math.floor((WIDTH_CLASSES * widths.indexOf(width)) / widths.length);

const parity = (count: number): string => (count === 1 ? 'one' : ['even', 'odd'][count % 2]!);

/** The number of limits that a value exceeds. */
const rank = (value: number, limits: readonly number[]): number => limits.filter((limit) => value > limit).length;

/** In a tile: at its end, one short of it, one beyond, or somewhere. */
function endOf(length: number, tile: number): string {
  const rest = length % tile;
  if (rest === 0) return 'full';
  if (rest === tile - 1) return 'short';
  return rest === 1 && length > tile ? 'beyond' : 'ragged';
}
