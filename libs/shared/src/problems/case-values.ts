/** A case of a problem: the value of each axis and attribute, and what follows from them. */
import type { FieldViolation } from '../contract/errors.ts';
import { DTYPE_BYTES, type TensorDtype } from '../data/dtype.ts';
import { evaluate, valueOr } from '../data/expression.ts';
import {
  type Operation,
  type Problem,
  type ProblemSymmetry,
  type ProblemTensor,
  type TensorRole,
  extentProblem,
} from './problem.ts';

/** By name: extents of axes, attributes as 1 and 0. */
export type CaseValues = Readonly<Record<string, number>>;

/** A tensor of a case. */
export interface TensorExtent {
  readonly name: string;
  readonly direction: 'in' | 'out';
  /** Selects the rule of a distribution that draws it. */
  readonly role: TensorRole;
  /** Outermost first. */
  readonly dims: readonly number[];
}

/** All axes and attributes: those given, and those that the problem computes. Wants axes without violations. */
export function caseValues(problem: Problem, given: CaseValues): CaseValues {
  const values = axisValues(problem, given);
  for (const { name, value, default: fallback } of problem.attributes)
    values[name] ??= value === undefined ? fallback : evaluate(value, values);
  return values;
}

/** Unknown names, missing axes, wrong extents and unmet conditions; `field` is the axis or attribute, or empty. */
export function axisViolations(problem: Problem, given: CaseValues): FieldViolation[] {
  const values = axisValues(problem, given);
  const known = [...problem.axes, ...problem.attributes.filter(({ value }) => value === undefined)].map(
    ({ name }) => name,
  );
  const unknown = Object.keys(given)
    .filter((name) => !known.includes(name))
    .map((field) => ({ field, description: `${problem.id} has no ${field}: a case of it says ${known.join(', ')}` }));
  const extents = problem.axes.flatMap(({ name, about }) => {
    if (!Object.hasOwn(values, name))
      return [{ field: name, description: `must be given: ${name} is ${problem.id}'s ${about}` }];
    const description = extentProblem(values[name]!);
    return description === undefined ? [] : [{ field: name, description }];
  });
  // A default computed from a wrong extent is wrong too; report only the values that the caller gave.
  const said = extents.filter(({ field }) => Object.hasOwn(given, field) || !Object.hasOwn(values, field));
  const violations = [...unknown, ...(said.length > 0 ? said : extents)];
  if (violations.length > 0) return violations;
  const all = caseValues(problem, given);
  const [refused] = problem.require.filter(({ require }) => valueOr(0, require, all) === 0);
  return refused
    ? [{ field: '', description: `${problem.id} requires ${refused.require.text}, because ${refused.because}` }]
    : [];
}

/** A default that cannot be computed is NaN; an axis with neither value nor default is absent. */
function axisValues({ defaults }: Problem, given: CaseValues): Record<string, number> {
  const values: Record<string, number> = { ...given };
  for (const { name, default: expression } of defaults) {
    if (Object.hasOwn(values, name)) continue;
    if (expression.names.every((used) => Object.hasOwn(values, used)))
      values[name] = valueOr(Number.NaN, expression, values);
  }
  return values;
}

/** What may be done to the tensors of a case together (ProblemSymmetry). */
export type CaseSymmetry = Pick<ProblemSymmetry, 'act' | 'axis' | 'dims'>;

/** A case as plain data, for code that draws, computes or compares its tensors. */
export interface ProblemCase {
  /** The problem's id. */
  readonly problem: string;
  readonly operation: Operation;
  /** Dtype of all tensors. */
  readonly dtype: TensorDtype;
  /** All axes and attributes. */
  readonly values: CaseValues;
  readonly tensors: readonly TensorExtent[];
  /** Those that hold for the case. */
  readonly symmetries: readonly CaseSymmetry[];
  /** Floating-point operations that count. */
  readonly flops: number;
  /** Least traffic with device memory: every tensor once. */
  readonly bytes: number;
}

/**
 * Whether PyTorch's plain attention computes the case: K and V have the heads and length of Q, and the only mask is
 * causal.
 */
export function isPlainAttention({ operation, tensors, values }: ProblemCase): boolean {
  const { causal = 0, window = -1, softcap = 0 } = values;
  const extents = new Set(tensors.map(({ dims }) => dims.join()));
  return operation === 'attention' && extents.size === 1 && causal <= 1 && window < 0 && softcap === 0;
}

/** Requires that axisViolations() is empty. */
export function problemCase(problem: Problem, given: CaseValues, dtype: TensorDtype): ProblemCase {
  const values = caseValues(problem, given);
  return {
    flops: flopsOf(problem, values),
    bytes: bytesOf(problem, values, dtype),
    problem: problem.id,
    operation: problem.operation,
    dtype,
    values,
    tensors: tensorExtents(problem, values),
    symmetries: problem.symmetries
      .filter(({ when }) => when === undefined || evaluate(when, values) !== 0)
      .map(({ act, axis, dims }) => ({ act, axis, dims })),
  };
}

/** The tensors of a case, in the problem's order. */
export const tensorExtents = ({ tensors }: Problem, values: CaseValues): TensorExtent[] =>
  tensors.map((tensor) => ({
    name: tensor.name,
    direction: tensor.direction,
    role: tensor.role,
    dims: dimsOf(tensor, values),
  }));

export const elementsOfTensor = ({ dims }: Pick<TensorExtent, 'dims'>): number =>
  dims.reduce((product, extent) => product * extent, 1);

/** Floating-point operations that count. */
export const flopsOf = ({ flops }: Problem, values: CaseValues): number => evaluate(flops, values);

/** Least traffic with device memory in bytes: every tensor once. */
export const bytesOf = (problem: Problem, values: CaseValues, dtype: TensorDtype): number =>
  tensorExtents(problem, values).reduce((sum, tensor) => sum + elementsOfTensor(tensor) * DTYPE_BYTES[dtype], 0);

const dimsOf = ({ dims }: ProblemTensor, values: CaseValues): number[] =>
  dims.map((extent) => evaluate(extent, values));
