/**
 * Chooses a run's shapes from many. A kernel can be wrong on any combination of sizes, and most mistakes need two or
 * three conditions at once (a causal mask and a ragged end; an odd number of heads and many of them). A run therefore
 * covers every pair of classes that any of the shapes has, as far as its budget allows, and as many triples as there is
 * room for.
 */
import { type CaseValues, type Expression, type Problem, RANDOM, valueOr } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';

/** Limits of classes, each ascending. */
export interface SizeClasses {
  tiles: readonly number[];
  lengths: readonly number[];
  /** Limits for the product of all counts. */
  counts: readonly number[];
  /** All widths that the kernel takes, by axis. */
  widths: ReadonlyMap<string, readonly number[]>;
  /** Axes and attributes that the kernel uses. */
  uses: ReadonlySet<string>;
}

/** If a kernel takes more widths than this, they are grouped by their rank. */
export const WIDTH_CLASSES = 4;
/** Tiles that a kernel may have without naming them in its manifest. */
const HIDDEN_TILES = [48, 64, 80, 96, 112, 128, 160, 192, 224];
/** Larger counts are "many". */
const FEW = 4;
/** Larger constants are more often numbers of threads than rows or keys of a tile. */
const MOST_OF_A_TILE = 128;
/** Values relative to that of a new pair: a new triple, an extent that no other shape has, all FLOPs of the budget. */
const TRIPLE = 1 / 4;
const NEW_EXTENT = 1;
const WHOLE_BUDGET = 8;

interface Classed {
  /** One class for each axis and attribute. */
  classes: readonly string[];
  extents: readonly string[];
}

export interface Classified<Shape> extends Classed {
  shape: Shape;
  flops: number;
}

/** A shape with numbers that stand for each pair and triple of its classes and for each extent. */
interface Scored<Shape> extends Classified<Shape> {
  pairs: readonly number[];
  triples: readonly number[];
  singles: readonly number[];
  /** The shape's value when it was last computed. A shape loses value as more is covered, so this is an upper bound. */
  atMost: number;
}

/** Chooses a run's shapes from `pool`, the most useful first, within `most` shapes and flops. */
export function coveringShapes<Shape>(
  pool: readonly Classified<Shape>[],
  most: { shapes: number; flops: number },
): Shape[] {
  const numbers = new Numbers();
  const left = pool.map((each) => scored(each, numbers));
  const covered = new Uint8Array(numbers.count);
  const chosen: Shape[] = [];
  let { flops } = most;
  const uncovered = (keys: readonly number[]): number => keys.reduce((count, key) => count + 1 - covered[key]!, 0);
  const worth = (each: Scored<Shape>): number =>
    uncovered(each.pairs) +
    TRIPLE * uncovered(each.triples) +
    NEW_EXTENT * uncovered(each.singles) -
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
    for (const key of [...each.pairs, ...each.triples, ...each.singles]) covered[key] = 1;
  }
  return chosen;
}

function scored<Shape>(each: Classified<Shape>, numbers: Numbers): Scored<Shape> {
  const classes = each.classes.map((name) => numbers.of(name));
  const pairs: number[] = [];
  const triples: number[] = [];
  for (const [i, a] of classes.entries())
    for (const [j, b] of classes.entries()) {
      if (j <= i) continue;
      const pair = numbers.of(`${a} ${b}`);
      pairs.push(pair);
      for (const c of classes.slice(j + 1)) triples.push(numbers.of(`${pair} ${c}`));
    }
  return { ...each, pairs, triples, singles: each.extents.map((name) => numbers.of(name)), atMost: Infinity };
}

/** Gives each text a number, in order of first use, so that an array can serve as a set of texts. */
class Numbers {
  readonly #numbers = new Map<string, number>();

  get count(): number {
    return this.#numbers.size;
  }

  of(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    this.#numbers.set(text, this.#numbers.size);
    return this.#numbers.size - 1;
  }
}

/** The classes of a case, whose values must be complete. */
export function shapeClasses(problem: Problem, values: CaseValues, sizes: SizeClasses): Classed {
  const axes = problem.axes.filter(({ name, default: fallback }) => !fallback || sizes.uses.has(name));
  const counts = axes.filter(({ draw, default: fallback }) => draw === 'count' && !fallback);
  const tile = Math.max(...sizes.tiles.filter((each) => each <= MOST_OF_A_TILE), Math.min(...sizes.tiles));
  const ofAxes = axes.flatMap(({ name, draw, default: fallback }) => {
    const extent = entryOf(values, name)!;
    const usual = fallback ? valueOr(extent, fallback, values) : extent;
    const beside = fallback
      ? [`${name} ${draw === 'divisor' ? divisorClass(extent, usual) : Math.sign(extent - usual)}`]
      : [];
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
        .map(({ name, draw }) => `${name} ${valueClass(entryOf(values, name)!, draw, values)}`),
    ],
    extents: axes.flatMap(({ name, draw }) => {
      if (draw === 'width') return [`${name}=${entryOf(values, name)}`];
      if (draw !== 'length') return [];
      const extent = entryOf(values, name)!;
      const beyond = HIDDEN_TILES.filter((each) => extent > each && extent % each === 1);
      return [
        `${name}%16=${extent % 16}`,
        `${name} single ${extent === 1}`,
        ...beyond.map((each) => `${name} beyond ${each}`),
      ];
    }),
  };
}

/** Names the expression that gives the value by its index. A random value has the power of 16 below it as its class. */
function valueClass(value: number, draw: readonly Expression[], values: CaseValues): string {
  const index = draw.findIndex((each) => !each.names.includes(RANDOM) && valueOr(Number.NaN, each, values) === value);
  return index < 0 ? `of 16^${Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 4))}` : `${index}`;
}

const widthClass = (width: number, widths: readonly number[]): number =>
  widths.length <= WIDTH_CLASSES
    ? width
    : Math.floor((WIDTH_CLASSES * widths.findLastIndex((each) => each <= width)) / widths.length);

/**
 * The class of a divisor, such as the heads of K and V: one for all heads of Q, one each, or one for each group. A
 * kernel that shifts instead of dividing is wrong only for groups whose size is not a power of two.
 */
function divisorClass(divisor: number, all: number): string {
  if (divisor === 1) return 'one';
  if (divisor === all) return 'each';
  return Number.isInteger(Math.log2(all / divisor)) ? 'groups of 2^n' : 'groups';
}

const parity = (count: number): string => (count === 1 ? 'one' : ['even', 'odd'][count % 2]!);

/** The number of limits that a value exceeds. */
const rank = (value: number, limits: readonly number[]): number => limits.filter((limit) => value > limit).length;

/** Position in a tile: at its end, one short of it, one beyond, or elsewhere. */
function endOf(length: number, tile: number): string {
  const rest = length % tile;
  if (rest === 0) return 'full';
  if (rest === tile - 1) return 'short';
  return rest === 1 && length > tile ? 'beyond' : 'ragged';
}
