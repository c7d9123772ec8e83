/** Chooses a job's shapes, requested or from a set, and plans their launches. */
import { invalidRequest, type Shape } from '@flashcore/shared/contract';
import {
  casesOf,
  caseViolations,
  checkShape,
  formatShape,
  namedCase,
  planLaunches,
  requireShape,
  shapeOf,
  valuesOf,
  type Cases,
  type Distribution,
  type Manifest,
  type PlannedLaunch,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import { didYouMean, entryOf } from '@flashcore/shared/text';

export interface PlannedKernel {
  manifest: Manifest;
  resolved: ResolvedVariant;
  cases: Cases;
  /**
   * True if a plan's gates judge the result. The plan's shapes are then not replaced by others that the kernel takes.
   */
  judged?: boolean;
}

/** Shapes of a job; `adapted`, such as "D=128": they come from a set, with these extents instead of the set's. */
export interface ChosenShapes {
  shapes: Shape[];
  adapted?: string;
}

/** Widths of rows in models: head dimensions, the most common ones first. */
const WIDTHS = [128, 96, 256, 32, 80, 112, 192, 16];
/** Lengths for kernels that accept only short ones, the longest first. */
const LENGTHS = [256, 128, 64, 32, 16];

/**
 * The default set. If the kernel takes none of its shapes, the first of these changes with which it takes one is made:
 * another row width in all shapes, other lengths, or both.
 */
export function defaultShapes(set: readonly Shape[], planned: PlannedKernel): ChosenShapes {
  const { manifest, resolved, judged } = planned;
  if (judged || acceptedShapes(set, manifest, resolved).length > 0) return { shapes: chooseShapes([], set, planned) };
  const given = manifest.problem.axes.filter((axis) => axis.default === undefined);
  const width = given.find(({ draw }) => draw === 'width');
  const lengths = given.filter(({ draw }) => draw === 'length');
  const widths = width ? WIDTHS.map((extent) => ({ [width.name]: extent })) : [];
  const shorter = LENGTHS.map((extent) => Object.fromEntries(lengths.map(({ name }) => [name, extent])));
  const both = shorter.flatMap((length) => widths.map((extent) => ({ ...extent, ...length })));
  for (const extents of [...widths, ...(lengths.length > 0 ? [...shorter, ...both] : [])]) {
    const shapes = uniqueShapes(set.map((shape) => shapeOf({ ...valuesOf(shape), ...extents })));
    const adapted = Object.entries(extents).map(([name, extent]) => `${name}=${extent}`);
    if (acceptedShapes(shapes, manifest, resolved).length > 0) return { shapes, adapted: adapted.join(', ') };
  }
  return { shapes: chooseShapes([], set, planned) };
}

/**
 * The kernel must take all requested shapes. Of a set it must take at least one; the others are reported as refused.
 */
export function chooseShapes(
  asked: readonly Shape[],
  set: readonly Shape[],
  { manifest, resolved, cases }: PlannedKernel,
): Shape[] {
  if (asked.length > 0) {
    const shapes = requestedCases(asked, cases);
    requireCases(shapes, manifest);
    for (const shape of shapes) planLaunches(manifest, resolved, shape);
    return uniqueShapes(shapes);
  }
  if (acceptedShapes(set, manifest, resolved).length === 0) requireShape(manifest, resolved, set[0]!);
  return [...set];
}

/**
 * The shapes of a request: a case's name is replaced with its values, and values of a named case get its name. Errors:
 * INVALID_REQUEST.
 */
export function requestedCases(asked: readonly Shape[], cases: Cases): Shape[] {
  const known = casesOf(cases);
  return asked.map((shape, index) => namedCase(shape, known, `shapes[${index}]`));
}

/** Errors: INVALID_REQUEST for shapes that are not cases of the kernel's problem. */
function requireCases(asked: readonly Shape[], { problem }: Manifest): void {
  const violations = asked.flatMap((shape, index) => caseViolations(problem, shape, `shapes[${index}]`));
  if (violations.length > 0) throw invalidRequest(...violations);
}

export function acceptedShapes(shapes: readonly Shape[], manifest: Manifest, resolved: ResolvedVariant): Shape[] {
  return shapes.filter((shape) => checkShape(manifest, resolved, shape) === undefined);
}

/** Launches of those shapes that the kernel takes. */
export function shapeLaunches(
  manifest: Manifest,
  resolved: ResolvedVariant,
  shapes: readonly Shape[],
): (PlannedLaunch & { shape: string })[] {
  return acceptedShapes(shapes, manifest, resolved).flatMap((shape) =>
    planLaunches(manifest, resolved, shape).launches.map((launch) => ({ ...launch, shape: formatShape(shape) })),
  );
}

/** The shapes of a set of cases.yaml. Errors: INVALID_REQUEST naming the available sets. */
export function caseSet(name: string, { sets }: Cases, field: string): readonly Shape[] {
  const shapes = entryOf(sets, name);
  if (shapes) return shapes;
  const known = Object.keys(sets);
  throw invalidRequest({
    field,
    description: `must be one of ${known.join(', ')}, got "${name}"${didYouMean(name, known)}`,
  });
}

/** A distribution of cases.yaml or of its probes. */
export const namedDistribution = ({ distributions, probes }: Cases, name: string): Distribution | undefined =>
  entryOf(distributions, name) ?? probes.distributions.find((each) => each.name === name);

/** Errors: INVALID_REQUEST for a seed whose distribution cases.yaml does not have. */
export function requireDistributions(seeds: readonly string[], cases: Cases): void {
  const known = [...Object.keys(cases.distributions), ...cases.probes.distributions.map(({ name }) => name)];
  for (const [index, seed] of seeds.entries()) {
    const name = seed.split('@')[1];
    if (name === undefined || namedDistribution(cases, name)) continue;
    throw invalidRequest({
      field: `seeds[${index}]`,
      description: `must name one of ${known.join(', ')}, got "${name}"${didYouMean(name, known)}`,
    });
  }
}

/** Removes duplicate shapes, keeping the order of first appearance. */
export function uniqueShapes(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [formatShape(shape), shape])).values()];
}
