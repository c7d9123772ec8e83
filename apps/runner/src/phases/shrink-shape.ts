import type { Shape } from '@flashcore/shared/contract';
import { type CaseValues, type Problem, formatShape, scopeOfShape, shapeOf, valuesOf } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';

/** Limit of launches in the search for a smaller shape: a binary search over a length of 2^14 takes 15. */
const MOST_TRIES = 48;

interface Shrinking {
  problem: Problem;
  /** Whether the kernel's limits allow a shape. */
  takes: (shape: Shape) => boolean;
  /** Whether the kernel is wrong on a shape. */
  fails: (shape: Shape) => Promise<boolean>;
}

/**
 * Finds the smallest failing shape. Optional axes and attributes are set to their defaults if the kernel still fails;
 * then each axis is set to 1, or else to the smallest failing extent; then attributes are tried again. The same answers
 * always give the same tries.
 */
export async function smallestFailing(from: Shape, { problem, takes, fails }: Shrinking): Promise<Shape> {
  let smallest = from;
  let tries = 0;
  const tried = new Set([formatShape(from)]);
  const failsAt = async (shape: Shape): Promise<boolean> => {
    if (tries >= MOST_TRIES || tried.has(formatShape(shape))) return false;
    tried.add(formatShape(shape));
    tries += 1;
    if (!(await fails(shape))) return false;
    smallest = shape;
    return true;
  };
  const leaveOut = async (name: string): Promise<void> => {
    const { [name]: left, ...rest } = valuesOf(smallest);
    if (left !== undefined && takes(shapeOf(rest))) await failsAt(shapeOf(rest));
  };
  const shrink = async (axis: string): Promise<void> => {
    const extentOf = (shape: Shape): number => entryOf(scopeOfShape(problem, shape), axis)!;
    const at = (extent: number): Shape => shapeOf({ ...valuesOf(smallest), [axis]: extent } satisfies CaseValues);
    /** The first extent from `least` up to `end` (exclusive) that the kernel takes. */
    const firstTaken = (least: number, end: number): Shape | undefined => {
      for (let extent = least; extent < end; extent += 1) {
        const shape = at(extent);
        if (takes(shape)) return shape;
      }
      return undefined;
    };
    const one = firstTaken(1, extentOf(smallest));
    if (one === undefined || (await failsAt(one))) return;
    let passes = extentOf(one);
    while (extentOf(smallest) - passes > 1 && tries < MOST_TRIES) {
      const middle = Math.floor((passes + extentOf(smallest)) / 2);
      const next = firstTaken(middle, extentOf(smallest)) ?? firstTaken(passes + 1, middle);
      if (next === undefined) return;
      if (!(await failsAt(next))) passes = extentOf(next);
    }
  };
  const optional = problem.axes.filter((axis) => axis.default).map(({ name }) => name);
  const attributes = problem.attributes.map(({ name }) => name);
  for (const name of [...optional, ...attributes.toReversed()]) await leaveOut(name);
  for (const { name } of problem.axes) if (Object.hasOwn(valuesOf(smallest), name)) await shrink(name);
  for (const name of attributes.toReversed()) await leaveOut(name);
  return smallest;
}
