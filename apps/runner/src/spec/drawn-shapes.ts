import { randomBytes, randomInt } from 'node:crypto';
import { FlashcoreError, type Device, type Shape } from '@flashcore/shared/contract';
import {
  archLimits,
  caseBytes,
  caseFlops,
  caseViolations,
  GRID_LIMITS,
  planIfTaken,
  RANDOM,
  scopeOfShape,
  shapeOf,
  tensorElements,
  valueOr,
  valuesOf,
  type AxisDraw,
  type CaseValues,
  type Expression,
  type LaunchPlan,
  type Problem,
  type ProblemAxis,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { uniqueShapes, type PlannedKernel } from './choose-shapes.ts';
import type { DrawnSpec } from './job-spec.ts';
import { coveringShapes, shapeClasses, WIDTH_CLASSES, type SizeClasses } from './shape-coverage.ts';

/** Draws a whole number from 0 to `count` - 1. */
export type Below = (count: number) => number;

interface DrawnKernel extends PlannedKernel {
  device: Device;
}

/**
 * Shapes and seeds for a run whose result may be accepted. They do not depend on the request. The shapes are drawn when
 * they are first read, because drawing takes tenths of a second and most plans never verify: a gateway only plans for
 * its pilots, and some plans are only made to compare a request with them.
 */
export function drawForRun(kernel: DrawnKernel): DrawnSpec {
  let shapes: readonly Shape[] | undefined;
  return {
    get shapes() {
      return (shapes ??= drawShapes(kernel, randomInt));
    },
    seeds: Array.from({ length: INPUTS_A_SHAPE }, () => randomBytes(8).toString('hex')),
  };
}

/** N(0, 1), and saturated logits, because omitting one of many keys shows only if that key has nearly all weight. */
const INPUTS_A_SHAPE = 2;

interface Budget {
  /** Limits on the FLOPs of a shape that is longer than the cases, of any other shape, and of all shapes together. */
  longFlops: number;
  flops: number;
  allFlops: number;
  /**
   * Maximum number of elements of a tensor: `elements` for most shapes, `mostElements` for shapes that are timed or
   * exceed a limit of a grid.
   */
  elements: number;
  mostElements: number;
  longest: number;
  shapes: number;
}
/**
 * Limits for each shape of a run and for all together. For a GPU, 16 CPUs compute the references in advance, all of a
 * run's in about a second. A problem's own reference has one thread per input, and no vector instructions.
 */
const BUDGETS: Record<'simulated' | 'real' | 'ownReference', Budget> = {
  simulated: {
    longFlops: 6e8,
    flops: 1e8,
    allFlops: 2.4e9,
    elements: 2 ** 18,
    mostElements: 2 ** 18,
    longest: 2 ** 11,
    shapes: 20,
  },
  real: {
    longFlops: 8e9,
    flops: 2e9,
    allFlops: 2.5e10,
    elements: 2 ** 22,
    mostElements: 2 ** 23,
    longest: 2 ** 14,
    shapes: 26,
  },
  ownReference: {
    longFlops: 2e8,
    flops: 5e7,
    allFlops: 8e8,
    elements: 2 ** 20,
    mostElements: 2 ** 20,
    longest: 2 ** 14,
    shapes: 24,
  },
};
function budgetOf({ operation }: Problem, { simulated }: Device): Budget {
  if (simulated) return BUDGETS.simulated;
  return operation === 'own' ? BUDGETS.ownReference : BUDGETS.real;
}

/**
 * How many of the probes' inputs a run affords on a timed shape. On an H200, 14 at 2x8x512x64 took 3 of the 5 s allowed
 * from save to gates; timed caches of 1 GB would take minutes, and more memory than a worker has.
 */
export function affordedInputs(problem: Problem, device: Device, shape: Shape): number {
  const { allFlops, mostElements } = budgetOf(problem, device);
  const size = tensorElements(problem, shape);
  // On the emulator the kernel takes most of the time, because it computes the whole shape.
  if (device.simulated) return size > mostElements ? 0 : Math.floor(allFlops / caseFlops(problem, shape));
  const smaller = repeatedShape(problem, shape);
  if (!smaller && size > mostElements) return 0;
  const most = smaller ? Math.min(MOST_OF_A_TIMED_SHAPE, Math.floor(MOST_REPEATED_ELEMENTS / size)) : Infinity;
  return Math.min(most, Math.floor((TIMED_SHARE * allFlops) / caseFlops(problem, smaller ?? shape)));
}
/** Limit on the probes' inputs on a large timed shape, each of which takes a hundredth of a second. */
const MOST_OF_A_TIMED_SHAPE = 15;
/**
 * How many trials a timed shape of plain attention affords: timed launches on values other than N(0, 1). Each needs the
 * answers of all pairs of drawn heads, which cost about as much as the shape's own.
 */
export function affordedTrials(problem: Problem, device: Device, shape: Shape): number {
  const { allFlops, longFlops } = budgetOf(problem, device);
  const flops = 2 * caseFlops(problem, shape);
  return flops > longFlops ? 0 : Math.max(1, Math.floor((TRIALS_SHARE * allFlops) / flops));
}
/** Share of the budget for trials. */
const TRIALS_SHARE = 1 / 3;
/**
 * How many distributions the trials of a timed shape afford together if launches are not made from heads of attention.
 */
export function affordedTrialSets(problem: Problem, device: Device, shape: Shape): number {
  const { allFlops } = budgetOf(problem, device);
  const drawn = repeatedShape(problem, shape) ?? shape;
  return Math.floor(
    Math.min(
      MOST_DRAWN_ELEMENTS[device.simulated ? 'simulated' : 'real'] / tensorElements(problem, drawn),
      MOST_REPEATED_ELEMENTS / tensorElements(problem, shape),
      (TRIALS_SHARE * allFlops) / caseFlops(problem, drawn),
    ),
  );
}
/**
 * Limit on the elements of the largest tensor in all sets of trials. A million are drawn in a tenth of a second, which
 * the emulator's own time hides.
 */
const MOST_DRAWN_ELEMENTS = { simulated: 2 ** 23, real: 2 ** 22 };

/** Limit on the elements of all inputs of a timed shape together. */
const MOST_REPEATED_ELEMENTS = 2 ** 24;

/**
 * The smaller shape whose tensors a probe's inputs repeat on a large shape, along axes of independent work. Most
 * distributions are drawn in JavaScript, a million numbers in a tenth of a second, and references take longer still.
 * undefined: the shape has inputs of its own.
 */
export function repeatedShape(problem: Problem, shape: ShapeFields): Shape | undefined {
  if (tensorElements(problem, shape) <= MOST_OWN_ELEMENTS) return undefined;
  const outputs = problem.tensors.filter(({ direction }) => direction === 'out');
  // An output without the axis sums over it, as dK does over the heads of Q that share it.
  const isOfOutputs = ({ name }: ProblemAxis): boolean =>
    outputs.every(({ dims }) => dims.some(({ text }) => text === name));
  const counts = problem.axes.filter((axis) => axis.draw === 'count' && !axis.default && isOfOutputs(axis));
  const ofRows = problem.axes.filter((axis) => axis.independent && isOfOutputs(axis));
  const along = new Set([...counts, ...ofRows].map(({ name }) => name));
  // Rows that a table names cannot be repeated, nor can a dimension such as B + 1.
  const repeats = problem.tensors.every(
    ({ ownDtype, dims }) =>
      ownDtype !== 'int32' &&
      dims.every(({ text, names }) => along.has(text) || !names.some((name) => along.has(name))),
  );
  if (!repeats) return undefined;
  const scope = scopeOfShape(problem, shape);
  const rows = ofRows.map(({ name }) => [name, Math.min(REPEATED_ROWS, entryOf(scope, name)!)] as const);
  // Heads of Q that share a head of K and V stay together.
  const smaller = [counts, counts.slice(0, -1)]
    .map((axes) => [...rows, ...axes.map(({ name }) => [name, 1] as const)])
    .map((extents) => shapeOf({ ...valuesOf(shape), ...Object.fromEntries(extents) }))
    .find((each) => caseViolations(problem, each, 'shape').length === 0);
  return smaller && caseFlops(problem, smaller) < caseFlops(problem, shape) ? smaller : undefined;
}

/** Whether a probe's distribution can be drawn on a shape within tenths of a second. */
export const affordsProbe = (problem: Problem, device: Device, shape: ShapeFields): boolean =>
  tensorElements(problem, repeatedShape(problem, shape) ?? shape) <=
  (device.simulated ? BUDGETS.simulated.elements : MOST_OWN_ELEMENTS);

const MOST_OWN_ELEMENTS = 2 ** 16;
/** A prime, so that no two tiles have the same rows. */
const REPEATED_ROWS = 61;
/** Share of the budget for the inputs of a timed shape, on a GPU. */
const TIMED_SHARE = 1 / 12;

/**
 * Whether a timed shape gets an input of normal numbers, which are drawn at a gigabyte a second: only a shape that is
 * too large for the probes' inputs, but whose reference can still be computed. No other input has realistic tables on
 * such a shape, because timed launches have full caches.
 */
export function affordsNormalInput(problem: Problem, device: Device, shape: Shape): boolean {
  const { longFlops, mostElements } = budgetOf(problem, device);
  const size = tensorElements(problem, shape);
  return size > mostElements && size <= MOST_TIMES * mostElements && caseFlops(problem, shape) <= longFlops;
}
/**
 * Limit on a shape's elements, as a multiple of `mostElements`: 2^28 elements on a GPU, or 32 sequences of 8,192 keys.
 */
const MOST_TIMES = 2 ** 5;

/**
 * CTAs that today's largest devices run at once, one per SM. A kernel may fail only with more CTAs than fit at once on
 * some device, which need not be the run's.
 */
const MOST_MULTIPROCESSORS = 148;
const MOST_COUNT = 2 ** 13;
/** Larger counts are a separate class, because the budget allows them only with short rows. */
const MANY = 2 ** 10;
/** Number of drawn shapes from which a run's shapes are chosen. */
const POOL = 288;
/** With fewer drawn shapes, a run also has the cases. */
const FEW_SHAPES = 4;
/** Share of the budget that is added for pairs of forms and sizes. */
const FORMS_SHARE = 0.5;
/**
 * Half of a shape's inputs have a full lone sequence or list, and half of the shapes have more places in a list than
 * keys. With three shapes a kernel that takes a lone list for full passed on an H200 (2026-12-03).
 */
const LONE_SHAPES = 6;
const LONE_DRAWS = 24;
/** How many shapes have as many attributes as possible, and how many are drawn to find them. */
const FORMS_SHAPES = 2;
const FORMS_DRAWS = 96;
/** For each length, how many shapes have a single one, and how many are drawn to find them. */
const SINGLE_SHAPES = 2;
const SINGLE_DRAWS = 24;
/** Share of a shape's FLOPs for one with the greatest length, and the most rows of its other lengths. */
const LONGEST_SHARE = 1 / 4;
const THIN = 16;
/** Tile sizes assumed for kernels whose manifests name none. */
const USUAL_TILES = [16, 64];
/** Lengths that are multiples of several tiles at once: 480 of 48, 80, 96 and 160; 672 of 48, 96, 112 and 224. */
const COMMON_MULTIPLES = [224, 240, 336, 384, 448, 480, 672, 960];
const SHORTEST_TILE = 8;
const LONGEST_TILE = 512;
/** Limits may require a length to be a multiple of one of these. */
const MULTIPLES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/** Widths that are tried with a manifest: all up to 16, multiples of 8, and neighbors of powers of two. */
const WIDTHS = [
  ...new Set([
    ...Array.from({ length: 16 }, (_, index) => index + 1),
    ...Array.from({ length: 64 }, (_, index) => 8 * (index + 1)),
    ...[32, 64, 128, 256].flatMap((power) => [power - 1, power + 1]),
  ]),
].toSorted((a, b) => a - b);

/**
 * Draws shapes from everything that the kernel's limits allow, the smallest first: every axis and attribute that the
 * kernel uses, in all pairs of classes that the budget allows (shape-coverage.ts); first with only one form of the
 * problem at a time.
 */
export function drawShapes(kernel: DrawnKernel, below: Below): Shape[] {
  const { device, manifest } = kernel;
  const { problem } = manifest;
  const draw = new ShapeDraw(kernel, below);
  const cover = (plain: boolean, share: number): Shape[] =>
    coveringShapes(
      uniqueShapes(Array.from({ length: POOL }, () => draw.shape(plain) ?? []).flat()).map((shape) => ({
        shape,
        flops: caseFlops(problem, shape),
        ...shapeClasses(problem, scopeOfShape(problem, shape), draw.classes),
      })),
      { shapes: share * draw.budget.shapes, flops: share * draw.budget.allFlops },
    );
  // Plain shapes are chosen first, so a kernel with many forms is tried on as many sizes as one with a single form.
  const chosen = [...cover(true, 1), ...(draw.hasForms ? cover(false, FORMS_SHARE) : [])];
  const grid = device.simulated ? undefined : draw.beyondGrid();
  const bySize = (shapes: readonly Shape[]): Shape[] =>
    shapes.toSorted((a, b) => caseFlops(problem, a) - caseFlops(problem, b));
  const all = uniqueShapes([
    ...chosen,
    ...draw.lone(),
    ...(draw.hasForms ? draw.mostForms() : []),
    ...draw.single(),
    ...draw.longest(),
    ...(grid ? [grid] : []),
  ]);
  return bySize(all.length >= FEW_SHAPES ? all : uniqueShapes([...all, ...draw.ofCases()]));
}

type Range = readonly [number, number];
/** Values by axis or attribute name. */
type Chosen = Map<string, number>;

/** One of the values under `draw`, and the default. */
interface DrawnAttribute {
  name: string;
  value: Expression;
  usual: number;
}

/** Limits of one shape. */
type Limits = Pick<Budget, 'flops' | 'elements'>;

class ShapeDraw {
  readonly budget: Budget;
  readonly classes: SizeClasses;
  readonly #kernel: DrawnKernel;
  readonly #problem: Problem;
  readonly #below: Below;
  /** Axes that the kernel uses, so they may have values other than their defaults. */
  readonly #axes: readonly ProblemAxis[];
  readonly #widths: ReadonlyMap<string, readonly number[]>;
  /** Ranges, all equally likely. */
  readonly #lengths: readonly Range[];
  readonly #longestCase: number;
  readonly #cases: readonly Shape[];
  readonly #counts: readonly Range[];

  constructor(kernel: DrawnKernel, below: Below) {
    const { manifest, device, cases, resolved } = kernel;
    this.#kernel = kernel;
    this.#problem = manifest.problem;
    this.#below = below;
    this.budget = budgetOf(this.#problem, device);
    this.#axes = this.#problem.axes.filter(({ name, default: fallback }) => !fallback || manifest.uses.has(name));
    const constants = Object.values(resolved.constants).filter(
      (value) => Number.isInteger(value) && value >= SHORTEST_TILE && value <= LONGEST_TILE,
    );
    const ofCases = cases.sets.parity.map((shape) => scopeOfShape(this.#problem, shape));
    const longest = Math.max(
      ...ofCases.flatMap((values) => this.#of('length').map(({ name }) => entryOf(values, name)!)),
      2,
    );
    const most = Math.max(
      ...ofCases.map((values) => product(this.#of('count').map(({ name }) => entryOf(values, name)!))),
    );
    const wave = Math.max(MOST_MULTIPROCESSORS, device.multiprocessors, most);
    this.#longestCase = longest;
    this.#cases = uniqueShapes([...cases.sets.parity, ...cases.sets.canonical]);
    this.#widths = new Map(
      this.#of('width').map(({ name }) => [name, WIDTHS.filter((width) => this.#takesWidth(name, width))]),
    );
    this.classes = {
      tiles: constants.length > 0 ? constants : USUAL_TILES,
      lengths: [16, 128, longest / 2, longest, 2 * longest, 4 * longest].toSorted((a, b) => a - b),
      counts: [4, most, wave, MANY].toSorted((a, b) => a - b),
      widths: this.#widths,
      uses: manifest.uses,
    };
    const { lengths, counts } = this.classes;
    this.#lengths = ranges([0, ...lengths, Math.max(this.budget.longest, 4 * longest)]);
    this.#counts = ranges([0, ...counts, MOST_COUNT]);
  }

  /** Whether some shapes are not plain; see shape(). */
  get hasForms(): boolean {
    return this.#axes.some((axis) => axis.default) || this.#attributes().length > 1;
  }

  /**
   * A shape that the kernel takes and the budget allows; undefined if this draw gave none. A `plain` shape keeps the
   * defaults of axes that have them, and of all attributes but one.
   */
  shape(plain: boolean): Shape | undefined {
    const drawn = plain ? this.#oneAttribute() : this.#attributes();
    const constants = drawn.filter(({ value }) => value.names.length === 0);
    const chosen: Chosen = new Map(constants.map(({ name, value }) => [name, valueOr(0, value, {})]));
    for (const { name } of this.#required('width')) {
      const width = this.#width(name);
      if (width === undefined) return undefined;
      chosen.set(name, width);
    }
    let { flops } = this.budget;
    const { elements } = this.budget;
    for (const { name } of this.#shuffled(this.#required('length'))) {
      const [least, longest] = this.#oneOf(this.#lengths)!;
      if (least > this.#longestCase) flops = this.budget.longFlops;
      const most = this.#greatest(chosen, name, { flops, elements, most: longest });
      if (most < least) return undefined;
      const length = this.#nearTile(this.#between(least, most));
      chosen.set(name, Math.min(most, Math.max(least, length)));
    }
    const counts = this.#required('count');
    if (counts.length > 0) {
      const most = this.#greatest(chosen, counts[0]!.name, { flops, elements, most: MOST_COUNT });
      const range = this.#oneOf(this.#counts.filter(([from]) => from <= most));
      if (!range) return undefined;
      let rest = this.#between(range[0], Math.min(range[1], most));
      for (const { name } of counts.slice(0, -1)) {
        const part = this.#below(3) === 0 ? 1 : this.#between(1, rest);
        chosen.set(name, part);
        rest = Math.floor(rest / part);
      }
      chosen.set(counts.at(-1)!.name, rest);
    }
    if (!plain) this.#drawOptional(chosen);
    for (const { name, value, usual } of drawn) {
      const random = value.names.includes(RANDOM) ? this.#below(2 ** 20) / 2 ** 20 : 0;
      const now = valueOr(usual, value, { [RANDOM]: random, ...this.#scope(chosen) });
      if (now === usual) chosen.delete(name);
      else chosen.set(name, now);
    }
    return this.#taken(chosen, { flops, elements });
  }

  /**
   * A shape with more independent work than a grid's limit of CTAs in y, if the budget allows it; undefined if the
   * kernel takes none.
   */
  beyondGrid(): Shape | undefined {
    const [last] = this.#required('count').toReversed();
    if (last === undefined) return undefined;
    const chosen: Chosen = new Map();
    for (const { name } of this.#required('width')) chosen.set(name, this.#oneOf(this.#widths.get(name)!) ?? 1);
    const { flops, mostElements: elements } = this.budget;
    const most = GRID_LIMITS[1] + this.#below(64);
    chosen.set(last.name, this.#greatest(chosen, last.name, { flops, elements, most }));
    return this.#taken(this.#withOnes(chosen), { flops, elements });
  }

  /**
   * Shapes with a single sequence, or a single list of keys, which a kernel may take for full. Empty if the problem
   * draws neither, or the kernel takes none.
   */
  lone(): Shape[] {
    const counted = this.#problem.tensors.flatMap(({ draw, dims }) => {
      if (draw?.kind === 'lengths') return dims;
      return draw?.kind === 'selected' ? dims.slice(0, -1) : [];
    });
    // An axis that the kernel does not use follows from others.
    const names = counted.flatMap((dim) => dim.names).flatMap((name) => this.#axisOrItsDefault(name));
    if (names.length === 0) return [];
    const ones = names.map((name) => [name, 1] as const);
    const drawn = Array.from({ length: LONE_DRAWS }, () => {
      const shape = this.shape(true);
      return shape ? (this.#taken(new Map([...Object.entries(valuesOf(shape)), ...ones]), this.budget) ?? []) : [];
    });
    return uniqueShapes(drawn.flat())
      .filter((shape) => names.every((name) => entryOf(scopeOfShape(this.#problem, shape), name) === 1))
      .slice(0, LONE_SHAPES);
  }

  /**
   * Shapes with as many attributes at once as any draw has, because pairs of forms leave out a kernel's path for all of
   * them.
   */
  mostForms(): Shape[] {
    const { uses } = this.#kernel.manifest;
    const attributes = this.#problem.attributes.filter(({ name }) => uses.has(name));
    const formsOf = (shape: Shape): number => {
      const scope = scopeOfShape(this.#problem, shape);
      return attributes.filter(({ name, default: usual }) => entryOf(scope, name) !== usual).length;
    };
    const drawn = Array.from({ length: FORMS_DRAWS }, () => this.shape(false) ?? []);
    return uniqueShapes(drawn.flat())
      .toSorted((a, b) => formsOf(b) - formsOf(a))
      .slice(0, FORMS_SHAPES);
  }

  /**
   * For each length, shapes with a single one and with more of another: a kernel may take another path for one query or
   * one row.
   */
  single(): Shape[] {
    const lengths = this.#of('length').map(({ name }) => name);
    if (lengths.length === 1) return [];
    return lengths.flatMap((name) => {
      const drawn = Array.from({ length: SINGLE_DRAWS }, () => {
        const shape = this.shape(lengths.length === this.#required('length').length);
        return shape ? (this.#taken(new Map([...Object.entries(valuesOf(shape)), [name, 1]]), this.budget) ?? []) : [];
      });
      return uniqueShapes(drawn.flat())
        .filter((shape) => {
          const scope = scopeOfShape(this.#problem, shape);
          return entryOf(scope, name) === 1 && lengths.some((other) => entryOf(scope, other)! > THIN);
        })
        .slice(0, SINGLE_SHAPES);
    });
  }

  /**
   * For each length, a thin shape with the greatest extent that the kernel's limits and a small part of the budget
   * allow: a length just below a limit is seldom drawn. Extents that cases have are left out.
   */
  longest(): Shape[] {
    const limits = { flops: LONGEST_SHARE * this.budget.flops, elements: this.budget.elements };
    const longestDrawn = this.#lengths.at(-1)![1];
    const lengths = this.#of('length').map(({ name }) => name);
    return lengths.flatMap((name) => {
      const chosen: Chosen = new Map();
      // Narrow rows leave room for the most of them.
      for (const { name: width } of this.#required('width')) chosen.set(width, this.#widths.get(width)![0] ?? 1);
      for (const other of lengths)
        if (other !== name) chosen.set(other, this.#below(2) === 0 ? 1 : this.#between(1, THIN));
      const takes = (extent: number): Shape | undefined =>
        this.#taken(this.#withOnes(new Map([...chosen, [name, extent]])), limits);
      let [least, tooMany] = [0, this.#greatest(chosen, name, { ...limits, most: longestDrawn }) + 1];
      while (tooMany - least > 1) {
        const middle = Math.floor((least + tooMany) / 2);
        if (takes(middle)) least = middle;
        else tooMany = middle;
      }
      const shape = least > this.#longestCase ? takes(least) : undefined;
      return shape ? [shape] : [];
    });
  }

  #axisOrItsDefault(name: string): readonly string[] {
    if (this.#axes.some((axis) => axis.name === name)) return [name];
    return this.#problem.axes.find((axis) => axis.name === name)?.default?.names ?? [];
  }

  /**
   * Used if few draws meet the limits: the cases that the kernel takes, within the budget, so that at least these get
   * drawn inputs.
   */
  ofCases(): Shape[] {
    let { allFlops } = this.budget;
    return this.#cases.filter((shape) => {
      const fits = fitsDevice(this.#kernel, shape) && caseFlops(this.#problem, shape) <= allFlops;
      if (fits) allFlops -= caseFlops(this.#problem, shape);
      return fits;
    });
  }

  /** One attribute at random, and those that its values depend on: a window needs a mask. */
  #oneAttribute(): DrawnAttribute[] {
    const all = this.#attributes();
    const chosen = this.#oneOf(all);
    const needed = this.#problem.attributes
      .find(({ name }) => name === chosen?.name)
      ?.draw.flatMap(({ names }) => names);
    return all.filter((each) => each === chosen || needed?.includes(each.name));
  }

  /** Chooses one value under `draw` for each attribute that the kernel uses. */
  #attributes(): DrawnAttribute[] {
    return this.#problem.attributes.flatMap(({ name, draw, default: usual }) => {
      const value = this.#kernel.manifest.uses.has(name) ? this.#oneOf(draw) : undefined;
      return value ? [{ name, value, usual }] : [];
    });
  }

  /** With probability 3/4, gives each axis that has a default a different value, if the kernel takes it. */
  #drawOptional(chosen: Chosen): void {
    for (const { name, default: fallback, draw } of this.#axes) {
      if (!fallback) continue;
      const usual = valueOr(1, fallback, this.#scope(chosen));
      const drawn = this.#below(4) === 0 ? usual : (this.#optional(name, draw, usual) ?? usual);
      if (drawn !== usual && this.#nearestTaken(new Map([...chosen, [name, drawn]]))) chosen.set(name, drawn);
    }
  }

  #optional(name: string, draw: AxisDraw, usual: number): number | undefined {
    if (draw === 'width') return this.#width(name);
    if (draw === 'divisor') return this.#oneOf(WIDTHS.filter((width) => width < usual && usual % width === 0));
    const [least, most] = this.#oneOf(draw === 'count' ? this.#counts : this.#lengths)!;
    return this.#nearTile(this.#between(least, most));
  }

  #taken(chosen: Chosen, { flops, elements }: Limits): Shape | undefined {
    const taken = this.#nearestTaken(chosen);
    const { shape } = taken ?? {};
    const fits =
      shape &&
      caseFlops(this.#problem, shape) <= flops &&
      tensorElements(this.#problem, shape) <= elements &&
      fitsMemory(this.#kernel, shape, taken!.plan);
    return fits ? shape : undefined;
  }

  /**
   * The shape itself if the kernel takes it; else with lengths rounded up to a multiple required by its limits, or with
   * less work.
   */
  #nearestTaken(chosen: Chosen): { shape: Shape; plan: LaunchPlan } | undefined {
    const lengths = this.#of('length').flatMap(({ name }) => {
      const length = chosen.get(name);
      return length === undefined ? [] : [[name, length] as const];
    });
    const longer = MULTIPLES.map((multiple) =>
      lengths.map(([name, length]) => [name, Math.ceil(length / multiple) * multiple] as const),
    );
    const found = this.#firstTaken(chosen, longer);
    if (found) return found;
    const counts = this.#required('count').map(({ name }) => name);
    const last = counts.at(-1);
    if (last === undefined) return undefined;
    const all = product(counts.map((name) => chosen.get(name) ?? 1));
    const fewer = counts.map((name) => [name, name === last ? Math.min(GRID_LIMITS[1], all) : 1] as const);
    // The kernel's limits may allow only the counts that a case has.
    const ofCases = this.#cases.map((shape) => counts.map((name) => [name, entryOf(valuesOf(shape), name)!] as const));
    return this.#firstTaken(chosen, [fewer, ...ofCases]);
  }

  /** The first shape that the kernel takes, of the shapes made by replacing extents of `chosen`. */
  #firstTaken(
    chosen: Chosen,
    extents: readonly (readonly (readonly [string, number])[])[],
  ): { shape: Shape; plan: LaunchPlan } | undefined {
    for (const each of extents) {
      const shape = shapeWith([...chosen, ...each]);
      const plan = planOnDevice(this.#kernel, shape);
      if (plan) return { shape, plan };
    }
    return undefined;
  }

  /**
   * Whether the kernel takes some shape of this width: a single head of a usual length, or a case changed to this
   * width.
   */
  #takesWidth(axis: string, width: number): boolean {
    const widths = [...this.#required('width').map(({ name }) => [name, width] as const), [axis, width] as const];
    const single = [1, 64, this.#longestCase].map((length) => [
      ...this.#withOnes(new Map(this.#required('length').map(({ name }) => [name, length]))),
    ]);
    const ofCases = this.#cases.map((shape) => Object.entries(valuesOf(shape)));
    return [...single, ...ofCases].some((extents) => fitsDevice(this.#kernel, shapeWith([...extents, ...widths])));
  }

  /** The greatest extent that the budget allows on an axis, at most `most`; axes without a value are taken as 1. */
  #greatest(chosen: Chosen, axis: string, { flops, elements, most }: Limits & { most: number }): number {
    const allows = (extent: number): boolean => {
      const shape = shapeWith([...this.#withOnes(new Map([...chosen, [axis, extent]]))]);
      return tensorElements(this.#problem, shape) <= elements && caseFlops(this.#problem, shape) <= flops;
    };
    if (allows(most)) return most;
    let [least, tooMany] = [0, most];
    while (tooMany - least > 1) {
      const middle = Math.floor((least + tooMany) / 2);
      if (allows(middle)) least = middle;
      else tooMany = middle;
    }
    return least;
  }

  #withOnes(chosen: Chosen): Chosen {
    const required = this.#problem.axes.filter((axis) => !axis.default);
    return new Map([...required.map(({ name }) => [name, 1] as const), ...chosen]);
  }

  #scope(chosen: Chosen): CaseValues {
    return scopeOfShape(this.#problem, shapeWith([...chosen]));
  }

  #of(draw: AxisDraw): ProblemAxis[] {
    return this.#axes.filter((axis) => axis.draw === draw);
  }

  /** Axes without a default. */
  #required(draw: AxisDraw): ProblemAxis[] {
    return this.#of(draw).filter((axis) => !axis.default);
  }

  /** Log-uniform: short extents are as likely as long ones. */
  #between(least: number, most: number): number {
    const share = this.#below(2 ** 20) / 2 ** 20;
    return Math.min(most, Math.floor(least * ((most + 1) / least) ** share));
  }

  /**
   * With probability 3/4, moves a length next to the end of a tile: one less, the end, or one more. A third of the
   * tiles are multiples of many tiles, because a kernel need not name its own in the manifest.
   */
  #nearTile(length: number): number {
    const multiples = COMMON_MULTIPLES.filter((each) => each <= length);
    const tile = this.#oneOf(multiples.length > 0 && this.#below(3) === 0 ? multiples : this.classes.tiles)!;
    const drawn = this.#below(4);
    const tiles = Math.round(length / tile);
    // For a length below half a tile the nearest end of a tile would be 0, which means no keys at all.
    return drawn === 3 || tiles === 0 ? length : tiles * tile + drawn - 1;
  }

  /**
   * If a kernel takes many widths, a third of the draws try any width up to the greatest, because an author may know
   * the listed widths.
   */
  #width(name: string): number | undefined {
    const widths = this.#widths.get(name)!;
    const any = widths.length > WIDTH_CLASSES && this.#below(3) === 0 ? 1 + this.#below(widths.at(-1)!) : 0;
    return any > 0 && this.#takesWidth(name, any) ? any : this.#oneOf(widths);
  }

  #shuffled<Value>(values: readonly Value[]): Value[] {
    const left = [...values];
    return values.map(() => left.splice(this.#below(left.length), 1)[0]!);
  }

  #oneOf<Value>(values: readonly Value[]): Value | undefined {
    return values[this.#below(Math.max(1, values.length))];
  }
}

/** Ranges from one more than a limit to the next limit; limits ascend, and equal ones make no range. */
const ranges = (limits: readonly number[]): Range[] =>
  limits
    .slice(1)
    .map((limit, index): Range => [Math.floor(limits[index]!) + 1, Math.floor(limit)])
    .filter(([from, to]) => from <= to);

const shapeWith = (values: readonly (readonly [string, number])[]): Shape => shapeOf(Object.fromEntries(values));

const product = (numbers: readonly number[]): number => numbers.reduce((all, each) => all * each, 1);

const fitsDevice = (kernel: DrawnKernel, shape: ShapeFields): boolean => planOnDevice(kernel, shape) !== undefined;

/** The launches; undefined if the kernel does not take the shape, or if a CTA would need too much shared memory. */
function planOnDevice(kernel: DrawnKernel, shape: ShapeFields): LaunchPlan | undefined {
  const plan = planOf(kernel, shape);
  // The emulator has an L4's limits, and Hopper's for kernels that need exactly that architecture.
  const { manifest, device } = kernel;
  const hopper = device.simulated && manifest.minArch.endsWith('a') ? archLimits(manifest.minArch) : undefined;
  const most = hopper?.smemPerCtaOptinBytes ?? device.smemOptinBytes;
  return most === 0 || plan?.launches.every(({ sharedBytes }) => sharedBytes <= most) ? plan : undefined;
}

/** Whether limits, launches and CUDA's grid allow a shape. */
export const takesShape = (kernel: PlannedKernel, shape: ShapeFields): boolean => planOf(kernel, shape) !== undefined;

function planOf({ manifest, resolved }: PlannedKernel, shape: ShapeFields): LaunchPlan | undefined {
  if (caseViolations(manifest.problem, shape, 'shape').length > 0) return undefined;
  try {
    return planIfTaken(manifest, resolved, shape);
  } catch (error) {
    // A shape whose launches are impossible is refused, whichever request names it.
    if (error instanceof FlashcoreError) return undefined;
    throw error;
  }
}

function fitsMemory(kernel: DrawnKernel, shape: ShapeFields, plan: LaunchPlan): boolean {
  const workspace = plan.workspace.reduce((sum, { bytes }) => sum + bytes, 0);
  const needed = caseBytes(kernel.manifest.problem, shape, kernel.resolved.dtype) + workspace;
  // Unknown for a partition without a registered node yet.
  return kernel.device.memoryBytes === 0n || 2 * needed <= Number(kernel.device.memoryBytes);
}
