/** The shapes of a job: those asked for, or a set's, and their launches. */
import { invalidRequest, type Shape } from '@flashcore/shared/contract';
import {
  caseViolations,
  checkShape,
  formatShape,
  planLaunches,
  requireShape,
  type Cases,
  type Manifest,
  type PlannedLaunch,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import { uniqueShapes } from './unique-shapes.ts';

export interface PlannedKernel {
  manifest: Manifest;
  resolved: ResolvedVariant;
  cases: Cases;
  /** Whether a plan's gates judge the result: it then runs on the plan's shapes or not at all. */
  judged?: boolean;
}

/** Shapes that a job runs on; `otherHeadDim`: a set's, with this head dimension in the place of its own. */
export interface ChosenShapes {
  shapes: Shape[];
  otherHeadDim?: number;
}

/** Of models, the most usual ones first. */
const HEAD_DIMS = [128, 96, 256, 32, 80, 112, 192, 16];

/**
 * A set that no request names, as the kernel takes it: where it takes none of the shapes, with the first head dimension
 * with which it takes one.
 */
export function defaultShapes(set: readonly Shape[], planned: PlannedKernel): ChosenShapes {
  const { manifest, resolved, judged } = planned;
  if (judged || acceptedShapes(set, manifest, resolved).length > 0) return { shapes: chooseShapes([], set, planned) };
  const ofHeads = set.filter(({ headDim }) => headDim > 0);
  for (const otherHeadDim of HEAD_DIMS) {
    const shapes = ofHeads.map((shape) => ({ ...shape, headDim: otherHeadDim }));
    if (acceptedShapes(shapes, manifest, resolved).length > 0) return { shapes, otherHeadDim };
  }
  return { shapes: chooseShapes([], set, planned) };
}

/**
 * Shapes that were asked for must all be taken; of a set it is enough when the kernel takes one (the others are
 * reported as refused).
 */
export function chooseShapes(
  asked: readonly Shape[],
  set: readonly Shape[],
  { manifest, resolved }: PlannedKernel,
): Shape[] {
  if (asked.length > 0) {
    requireCases(asked, manifest);
    for (const shape of asked) planLaunches(manifest, resolved, shape);
    return uniqueShapes(asked);
  }
  if (acceptedShapes(set, manifest, resolved).length === 0) requireShape(manifest, resolved, set[0]!);
  return [...set];
}

/** Errors: INVALID_REQUEST for what is no case of the kernel's problem. */
function requireCases(asked: readonly Shape[], { problem }: Manifest): void {
  const violations = asked.flatMap((shape, index) => caseViolations(problem, shape, `shapes[${index}]`));
  if (violations.length > 0) throw invalidRequest(...violations);
}

export function acceptedShapes(shapes: readonly Shape[], manifest: Manifest, resolved: ResolvedVariant): Shape[] {
  return shapes.filter((shape) => checkShape(manifest, resolved, shape) === undefined);
}

/** Launches of the shapes that the kernel takes. */
export function shapeLaunches(
  manifest: Manifest,
  resolved: ResolvedVariant,
  shapes: readonly Shape[],
): (PlannedLaunch & { shape: string })[] {
  return acceptedShapes(shapes, manifest, resolved).flatMap((shape) =>
    planLaunches(manifest, resolved, shape).launches.map((launch) => ({ ...launch, shape: formatShape(shape) })),
  );
}
