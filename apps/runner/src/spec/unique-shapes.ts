import type { Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';

/** Removes duplicate shapes, keeping the order of first appearance. */
export function uniqueShapes(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [formatShape(shape), shape])).values()];
}
