import type { Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';

/** Each shape once, in the order of their first places. */
export function uniqueShapes(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [formatShape(shape), shape])).values()];
}
