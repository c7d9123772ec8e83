import { randomBytes, randomInt } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { FlashcoreError, ShapeSchema, type Device, type Shape } from '@flashcore/shared/contract';
import {
  archLimits,
  attention,
  caseBytes,
  caseFlops,
  caseViolations,
  planLaunches,
  tensorElements,
  type LaunchPlan,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import type { PlannedKernel } from './choose-shapes.ts';
import type { DrawnSpec } from './job-spec.ts';
import { coveringShapes } from './shape-coverage.ts';
import { uniqueShapes } from './unique-shapes.ts';

/** A whole number from 0 to `count` - 1. */
export type Below = (count: number) => number;

interface DrawnKernel extends PlannedKernel {
  device: Device;
}

/** Shapes and seeds for a run whose result may be accepted. Nothing in them follows from the request. */
export const drawForRun = (kernel: DrawnKernel): DrawnSpec => ({
  shapes: drawShapes(kernel, randomInt),
  seeds: Array.from({ length: INPUTS_A_SHAPE }, () => randomBytes(8).toString('hex')),
});

/** N(0, 1), and saturated logits: a key that is left out of many shows only where it has nearly all weight. */
const INPUTS_A_SHAPE = 2;

/**
 * Limits on each shape of a run and on all. A GPU's are computed ahead by 16 processors, the longest in a tenth of a
 * second.
 */
const BUDGETS = {
  simulated: { longFlops: 6e8, flops: 1e8, allFlops: 2.4e9, elements: 2 ** 18, longest: 2 ** 11, shapes: 20 },
  real: { longFlops: 2e10, flops: 2e9, allFlops: 5e10, elements: 2 ** 23, longest: 2 ** 14, shapes: 32 },
};
type Budget = (typeof BUDGETS)['real'];
/** The longest row of a parity case, and the most heads in all. */
const LONGEST_CASE = 512;
const MOST_HEADS_OF_A_CASE = 32;
/** CTAs that the devices of today take at once, one an SM: a kernel may know that of another device than the run's. */
const MOST_MULTIPROCESSORS = 148;
const MOST_HEADS = 2 ** 13;
/** A class of their own begins here: short rows only leave room for them. */
const MANY_HEADS = 2 ** 10;
const GRID_Y_LIMIT = 65_535;
/** Shapes that a run's are chosen from. */
const POOL = 512;
/** Tiles that kernels have whose manifests name none. */
const USUAL_TILES = [16, 64];
const SHORTEST_TILE = 8;
const LONGEST_TILE = 512;
/** A limit may ask that a length is a multiple of one of these. */
const MULTIPLES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/** Head dimensions that a manifest is asked for: all up to 16, multiples of 8, and those next to powers of two. */
const HEAD_DIMS = [
  ...new Set([
    ...Array.from({ length: 16 }, (_, index) => index + 1),
    ...Array.from({ length: 64 }, (_, index) => 8 * (index + 1)),
    ...[32, 64, 128, 256].flatMap((power) => [power - 1, power + 1]),
  ]),
];

type Extents = ShapeFields;

/**
 * Shapes from everything that the kernel's limits allow, the smallest first: batches, heads, lengths, ends of tiles,
 * head dimensions and masks in all pairs that the budget allows (shape-coverage.ts).
 */
export function drawShapes(kernel: DrawnKernel, below: Below): Shape[] {
  const { device } = kernel;
  const budget = BUDGETS[device.simulated ? 'simulated' : 'real'];
  const wave = Math.max(MOST_MULTIPROCESSORS, device.multiprocessors);
  const draw = new ShapeDraw(kernel, { below, budget, wave });
  const pool = uniqueShapes(Array.from({ length: POOL }, () => draw.shape() ?? []).flat());
  const chosen = coveringShapes(pool, {
    longestCase: LONGEST_CASE,
    mostHeadsOfACase: MOST_HEADS_OF_A_CASE,
    wave,
    manyHeads: MANY_HEADS,
    headDims: draw.headDims,
    tiles: draw.tiles,
    shapes: budget.shapes,
    flops: budget.allFlops,
  });
  const grid = device.simulated ? undefined : draw.beyondGrid();
  return uniqueShapes(grid ? [...chosen, grid] : chosen).toSorted(
    (a, b) => caseFlops(attention(), a) - caseFlops(attention(), b),
  );
}

interface ShapeDrawOptions {
  below: Below;
  budget: Budget;
  wave: number;
}

class ShapeDraw {
  readonly headDims: readonly number[];
  readonly tiles: readonly number[];
  readonly #kernel: DrawnKernel;
  readonly #below: Below;
  readonly #budget: Budget;
  /** From and to, each as likely as the others. */
  readonly #lengths: readonly (readonly [number, number])[];
  readonly #heads: readonly (readonly [number, number])[];

  constructor(kernel: DrawnKernel, { below, budget, wave }: ShapeDrawOptions) {
    this.#kernel = kernel;
    this.#below = below;
    this.#budget = budget;
    this.headDims = HEAD_DIMS.filter((headDim) =>
      [1, 64, LONGEST_CASE].some((sequenceLength) =>
        fitsDevice(kernel, { batch: 1, heads: 1, sequenceLength, headDim, causal: false }),
      ),
    ).toSorted((a, b) => a - b);
    const constants = Object.values(kernel.resolved.constants).filter(
      (value) => Number.isInteger(value) && value >= SHORTEST_TILE && value <= LONGEST_TILE,
    );
    this.tiles = constants.length > 0 ? constants : USUAL_TILES;
    this.#lengths = [
      [1, 16],
      [17, 128],
      [129, LONGEST_CASE / 2],
      [LONGEST_CASE / 2 + 1, LONGEST_CASE],
      [LONGEST_CASE + 1, 2 * LONGEST_CASE],
      [2 * LONGEST_CASE + 1, 4 * LONGEST_CASE],
      ...(budget.longest > 4 * LONGEST_CASE ? [[4 * LONGEST_CASE + 1, budget.longest] as const] : []),
    ];
    this.#heads = [
      [1, 4],
      [5, MOST_HEADS_OF_A_CASE],
      [MOST_HEADS_OF_A_CASE + 1, wave],
      [wave + 1, MANY_HEADS],
      [MANY_HEADS + 1, MOST_HEADS],
    ];
  }

  /** A shape that the kernel takes and the budget allows; undefined: this time there is none. */
  shape(): Shape | undefined {
    const headDim = this.#oneOf(this.headDims);
    if (headDim === undefined) return undefined;
    const causal = this.#below(2) === 0;
    const [least, longest] = this.#oneOf(this.#lengths)!;
    const budget = least > LONGEST_CASE ? this.#budget.longFlops : this.#budget.flops;
    const perKey = 4 * headDim * (causal ? 0.5 : 1);
    const most = Math.min(longest, Math.floor(this.#budget.elements / headDim), Math.floor(Math.sqrt(budget / perKey)));
    if (most < least) return undefined;
    const sequenceLength = Math.min(most, Math.max(least, this.#nearTile(this.#between(least, most))));
    const mostHeads = Math.min(
      Math.floor(this.#budget.elements / (sequenceLength * headDim)),
      Math.floor(budget / (perKey * sequenceLength ** 2)),
    );
    const [fewest, greatest] = this.#oneOf(this.#heads)!;
    if (mostHeads < fewest) return undefined;
    const all = this.#between(fewest, Math.min(greatest, mostHeads));
    const batch = this.#below(3) === 0 ? 1 : this.#between(1, all);
    return this.#taken({ batch, heads: Math.floor(all / batch), sequenceLength, headDim, causal }, budget);
  }

  /** More heads in all than a grid's y dimension has; undefined: the kernel takes no such shape. */
  beyondGrid(): Shape | undefined {
    const headDim = this.#oneOf(this.headDims);
    if (headDim === undefined) return undefined;
    const heads = Math.min(GRID_Y_LIMIT + this.#below(64), Math.floor(this.#budget.elements / headDim));
    return this.#taken({ batch: 1, heads, sequenceLength: 1, headDim, causal: false }, this.#budget.flops);
  }

  #taken(extents: Extents, flops: number): Shape | undefined {
    const shape = this.#nearestTaken(extents);
    const fits =
      shape &&
      caseFlops(attention(), shape) <= flops &&
      tensorElements(attention(), shape) <= this.#budget.elements &&
      fitsMemory(this.#kernel, shape);
    return fits ? create(ShapeSchema, shape) : undefined;
  }

  /** As many short ones as long ones, by their logarithm. */
  #between(least: number, most: number): number {
    const share = this.#below(2 ** 20) / 2 ** 20;
    return Math.min(most, Math.floor(least * ((most + 1) / least) ** share));
  }

  /** Three times in four next to the end of a tile: one less, its end, one more. */
  #nearTile(length: number): number {
    const tile = this.#oneOf(this.tiles)!;
    const drawn = this.#below(4);
    const tiles = Math.round(length / tile);
    // Below a tile's half the nearest end would be no key at all.
    return drawn === 3 || tiles === 0 ? length : tiles * tile + drawn - 1;
  }

  /** The same, or the next multiple, where a limit asks for one; then fewer heads, where it bounds them. */
  #nearestTaken(extents: Extents): Extents | undefined {
    for (const multiple of MULTIPLES) {
      const longer = { ...extents, sequenceLength: Math.ceil(extents.sequenceLength / multiple) * multiple };
      if (fitsDevice(this.#kernel, longer)) return longer;
    }
    const fewer = { ...extents, batch: 1, heads: Math.min(GRID_Y_LIMIT, extents.heads * extents.batch) };
    return fitsDevice(this.#kernel, fewer) ? fewer : undefined;
  }

  #oneOf<Value>(values: readonly Value[]): Value | undefined {
    return values[this.#below(Math.max(1, values.length))];
  }
}

/** As takesShape(), and whether a CTA of the device can have the shared memory that the shape's launches ask for. */
function fitsDevice(kernel: DrawnKernel, shape: Extents): boolean {
  const plan = planOf(kernel, shape);
  // The emulator has an L4's limits, and Hopper's for kernels that run on nothing else.
  const { manifest, device } = kernel;
  const hopper = device.simulated && manifest.minArch.endsWith('a') ? archLimits(manifest.minArch) : undefined;
  const most = hopper?.smemPerCtaOptinBytes ?? device.smemOptinBytes;
  return plan !== undefined && (most === 0 || plan.launches.every(({ sharedBytes }) => sharedBytes <= most));
}

/** Whether limits, launches and CUDA's grid allow a shape. */
export const takesShape = (kernel: PlannedKernel, shape: Extents): boolean => planOf(kernel, shape) !== undefined;

function planOf({ manifest, resolved }: PlannedKernel, shape: Extents): LaunchPlan | undefined {
  if (caseViolations(manifest.problem, shape, 'shape').length > 0) return undefined;
  try {
    return planLaunches(manifest, resolved, shape);
  } catch (error) {
    // A shape that its launches can't have is refused wherever it is asked for.
    if (error instanceof FlashcoreError) return undefined;
    throw error;
  }
}

function fitsMemory(kernel: DrawnKernel, shape: Extents): boolean {
  const workspace = planOf(kernel, shape)!.workspace.reduce((sum, { bytes }) => sum + bytes, 0);
  const needed = caseBytes(kernel.manifest.problem, shape, kernel.resolved.dtype) + workspace;
  // Unknown of a partition that no node has told of.
  return kernel.device.memoryBytes === 0n || 2 * needed <= Number(kernel.device.memoryBytes);
}
