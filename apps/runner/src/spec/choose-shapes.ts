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
