/**
 * Tests every function of kernels/primitives separately. A case has the function's inputs and the output that the PTX
 * ISA defines for its instruction, computed here in the most obvious way.
 */
import type { Suite, PrimitiveCase } from './bench.ts';
import { packBfloat2, packHalf2, exp2Approx } from './conversions.ts';
import {
  cpAsync,
  namedBarriers,
  mbarrierPhases,
  swizzledOffsets,
  tma,
  tmaOfBatch,
  bulkLoad,
  bulkReduceAdd,
  cluster,
  registersMoved,
} from './copies-and-barriers.ts';
import { ldmatrix, stmatrix } from './matrix-moves.ts';
import { mma, wgmma } from './matrix-products.ts';
import { normals, exact } from './test-numbers.ts';

export const PRIMITIVES: PrimitiveCase[] = [
  packHalf2(),
  packBfloat2(),
  exp2Approx(),
  ldmatrix(4, false),
  ldmatrix(4, true),
  ldmatrix(2, false),
  ldmatrix(2, true),
  stmatrix(),
  mma('f32', exact, 'mma_m16n8k16_f32, exact sums'),
  mma('f32', normals, 'mma_m16n8k16_f32, N(0, 1)'),
  mma('f32', exact, 'mma_m16n8k16_f32 of bf16, exact sums', 'bf16'),
  mma('f32', normals, 'mma_m16n8k16_f32 of bf16, N(0, 1)', 'bf16'),
  mma('f16', exact, 'mma_m16n8k16_f16, exact sums'),
  cpAsync(),
  namedBarriers(),
  swizzledOffsets(),
  mbarrierPhases(),
  tma(),
  tmaOfBatch(),
  bulkLoad(),
  bulkReduceAdd(),
  wgmma(64, 'rs'),
  wgmma(128, 'rs'),
  wgmma(64, 'rs_bt'),
  wgmma(72, 'rs_bt'),
  wgmma(96, 'rs_bt'),
  wgmma(128, 'rs_bt'),
  wgmma(256, 'rs_bt'),
  wgmma(64, 'ss'),
  wgmma(80, 'ss'),
  wgmma(128, 'ss'),
  wgmma(64, 'ss_atbt'),
  wgmma(128, 'rs', normals),
  wgmma(128, 'rs_bt', normals),
  cluster(),
  registersMoved(),
];

const entriesOf = (source: string): string[] => [
  ...new Set(PRIMITIVES.filter((each) => each.source === source).map(({ entry }) => entry)),
];

export const PRIMITIVE_SUITE: Suite = {
  primitives: { entries: entriesOf('primitives') },
  primitives_sm90: { entries: entriesOf('primitives_sm90'), needs: 'sm_90' },
  primitives_sm90a: { entries: entriesOf('primitives_sm90a'), needs: 'sm_90a' },
};
