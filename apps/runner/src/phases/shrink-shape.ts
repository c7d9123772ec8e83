import { create } from '@bufbuild/protobuf';
import { ShapeSchema, type Shape } from '@flashcore/shared/contract';

/** The axes in the order in which they are made smaller. */
const AXES = ['batch', 'heads', 'sequenceLength', 'headDim'] as const;
type Axis = (typeof AXES)[number];

/** Most launches that look for a smaller shape: a binary search over a length of 2^14 takes 15. */
const MOST_TRIES = 48;

interface Shrinking {
  /** Whether the kernel's limits allow a shape. */
  takes: (shape: Shape) => boolean;
  /** Whether the kernel is wrong on it. */
  fails: (shape: Shape) => Promise<boolean>;
}

/**
 * The smallest shape that fails: one axis after another is set to 1 where that fails too, and else searched for the
 * least that does; then the mask is taken away. Always the same tries for the same answers.
 */
export async function smallestFailing(from: Shape, { takes, fails }: Shrinking): Promise<Shape> {
  let smallest = from;
  let tries = 0;
  const failsAt = async (shape: Shape): Promise<boolean> => {
    if (tries >= MOST_TRIES) return false;
    tries += 1;
    if (!(await fails(shape))) return false;
    smallest = shape;
    return true;
  };
  const shrink = async (axis: Axis): Promise<void> => {
    const at = (extent: number): Shape => create(ShapeSchema, { ...smallest, [axis]: extent });
    /** The first from `least` on, below `end`, that the kernel takes. */
    const firstTaken = (least: number, end: number): Shape | undefined => {
      for (let extent = least; extent < end; extent += 1) {
        const shape = at(extent);
        if (takes(shape)) return shape;
      }
      return undefined;
    };
    let passes = 0;
    const one = firstTaken(1, smallest[axis]);
    if (one === undefined || (await failsAt(one))) return;
    passes = one[axis];
    while (smallest[axis] - passes > 1 && tries < MOST_TRIES) {
      const middle = Math.floor((passes + smallest[axis]) / 2);
      const next = firstTaken(middle, smallest[axis]) ?? firstTaken(passes + 1, middle);
      if (next === undefined) return;
      if (!(await failsAt(next))) passes = next[axis];
    }
  };
  for (const axis of AXES) await shrink(axis);
  if (smallest.causal) {
    const unmasked = create(ShapeSchema, { ...smallest, causal: false });
    if (takes(unmasked)) await failsAt(unmasked);
  }
  return smallest;
}
