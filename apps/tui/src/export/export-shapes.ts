/** Shapes for exported data sets, limited to those that the kernel takes. */
import type { Shape } from '@flashcore/shared/contract';
import { checkShape, parseShape } from '@flashcore/shared/kernels';
import type { ExportedKernel } from './exported-kernel.ts';

// The canonical shape, half of its work, a length that fills no tile, and longer ones; each with and without the mask.
const SHAPES = ['2x8x512x64', '1x8x512x64', '1x8x113x64', '2x8x1024x64', '1x8x2048x64'];

export const exportShapes = ({ manifest, parameters }: Pick<ExportedKernel, 'manifest' | 'parameters'>): Shape[] =>
  SHAPES.flatMap((text) => [parseShape(text), parseShape(`${text}c`)]).filter(
    (shape) => checkShape(manifest, { parameters }, shape) === undefined,
  );
