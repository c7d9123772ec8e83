/** Definitions whose tensors all equal those of an installed problem, so that only their cases are new. */
import { caseViolations, formatShape, installedProblem, shapeOf, type Problem } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { DTYPES, NotImportable, requireReference, type RecognizedBy } from './attention-forms.ts';
import type { Definition, Workload } from './definition.ts';

/** Installed problems that an op_type names. */
const INSTALLED = ['gemm'];

/** The installed problem that equals a definition; undefined if its op_type has none. Errors: NotImportable. */
export function installedForm(definition: Definition, by: RecognizedBy): Problem | undefined {
  const { opType, inputs, outputs, constraints } = definition;
  if (!INSTALLED.includes(opType)) return undefined;
  const problem = installedProblem(opType);
  const defined = { ...inputs, ...outputs };
  const known = problem.tensors.map(({ name }) => name);
  const more = Object.keys(defined).find((name) => !known.includes(name)) ?? constraints[0];
  if (more !== undefined)
    throw new NotImportable(
      `${more}: the installed problem ${problem.id} does not have it: it has ${known.join(', ')}`,
    );
  for (const { name, dims, dtypes, direction } of problem.tensors) {
    const tensor = entryOf(direction === 'in' ? inputs : outputs, name);
    const shape = dims.map(({ text }) => text).join(', ');
    if (tensor?.shape?.join(', ') !== shape)
      throw new NotImportable(`${name}: must be [${shape}], as the installed problem ${problem.id} has it`);
    const dtype = entryOf(DTYPES, tensor.dtype);
    if (!dtype || !dtypes.includes(dtype) || tensor.dtype !== entryOf(defined, known[0]!)!.dtype)
      throw new NotImportable(`${name}.dtype: must be ${dtypes.join(', ')}, the same for all, got ${tensor.dtype}`);
  }
  requireReference(definition, problem.id, by);
  return problem;
}

/** Shapes of a definition's workloads in the form of --shape. */
export function installedShapes(problem: Problem, definition: Definition, workloads: readonly Workload[]): string[] {
  const shapes = workloads.flatMap(({ axes }) => {
    const values = Object.fromEntries(
      problem.axes.flatMap(({ name }) => {
        const extent = entryOf(definition.axes, name) ?? entryOf(axes, name);
        return extent === undefined ? [] : [[name, extent] as const];
      }),
    );
    const shape = shapeOf(values);
    return caseViolations(problem, shape, '').length > 0 ? [] : [formatShape(shape)];
  });
  return [...new Set(shapes)];
}
