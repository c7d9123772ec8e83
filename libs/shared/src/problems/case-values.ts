/** A case of a problem: the value of each axis and attribute, and everything derived from them. */
import type { FieldViolation } from '../contract/errors.ts';
import { DTYPE_BYTES, type ElementDtype, TENSOR_DTYPES, type TensorDtype, isSmall } from '../data/dtype.ts';
import { type Expression, ExpressionError, evaluate, valueOr } from '../data/expression.ts';
import { type Operands, derivedInputs } from './operands.ts';
import type { OperandAxis, OperandName } from './problem-schema.ts';
import {
  DTYPE_SIZE,
  type Operation,
  type Problem,
  type ProblemSymmetry,
  type ProblemTensor,
  type TensorRole,
  dtypeOfTensor,
  extentProblem,
} from './problem.ts';
import type { DrawRule, OwnedRows } from './tensor-rules.ts';
import { entryOf, setEntry } from '../text/entry-of.ts';

/** Values by name: extents of axes, and attributes, with true as 1 and false as 0. */
export type CaseValues = Readonly<Record<string, number>>;

/** A tensor of a case. */
export interface TensorExtent {
  readonly name: string;
  readonly direction: 'in' | 'out';
  /** Selects the rule that a distribution draws the tensor by. */
  readonly role: TensorRole;
  /** Outermost first. */
  readonly dims: readonly number[];
  /** The dimensions in memory, outermost first, as indices of `dims`; undefined if the order is that of `dims`. */
  readonly layout?: readonly number[];
  readonly dtype: ElementDtype;
  /**
   * The rule that draws the tensor; undefined if a distribution draws it. `derived`: the built-in oracle computes the
   * tensor from other inputs.
   */
  readonly draw?: DrawRule<number> | { readonly kind: 'derived' };
  /** Rows that belong to a sequence; undefined: all rows. */
  readonly rows?: OwnedRows;
  /** Name of an output's own tolerance profile. */
  readonly tolerance?: string;
  /** How often an honest kernel rounds an element of the output to its dtype. */
  readonly rounds?: number;
  /** Only some kernels have this output. */
  readonly optional?: true;
}

/** All axes and attributes, both given and computed by the problem. Requires axes without violations. */
export function caseValues(problem: Problem, given: CaseValues): CaseValues {
  const values = axisValues(problem, given);
  for (const { name, value, default: fallback } of problem.attributes)
    if (entryOf(values, name) === undefined)
      setEntry(values, name, value === undefined ? fallback : evaluate(value, values));
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
    const description = extentProblem(entryOf(values, name)!);
    return description === undefined ? [] : [{ field: name, description }];
  });
  // A default computed from a wrong extent is wrong too; report only the values that the caller gave.
  const said = extents.filter(({ field }) => Object.hasOwn(given, field) || !Object.hasOwn(values, field));
  const violations = [...unknown, ...(said.length > 0 ? said : extents)];
  if (violations.length > 0) return violations;
  try {
    return computedViolations(problem, given);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return [{ field: '', description: `${problem.id}: ${error.message}; correct the expression in its problem.yaml` }];
  }
}

/** The faults of the values that a problem computes from a case. Errors: ExpressionError if a value is not finite. */
function computedViolations(problem: Problem, given: CaseValues): FieldViolation[] {
  const all = caseValues(problem, given);
  const drawn = problem.tensors.flatMap((tensor) => drawViolation(problem, tensor, all));
  if (drawn.length > 0) return drawn;
  const [refused] = problem.require.filter(({ require }) => valueOr(0, require, all) === 0);
  if (refused)
    return [{ field: '', description: `${problem.id} requires ${refused.require.text}, because ${refused.because}` }];
  const [extent] = problem.tensors
    .filter((tensor) => isPresent(tensor, all))
    .flatMap(({ name, dims }) =>
      dims.flatMap((dim) => {
        const wrong = extentProblem(evaluate(dim, all));
        return wrong === undefined ? [] : [`${name} has the dimension ${dim.text}: ${wrong}`];
      }),
    );
  const { flops, bytes } = extent === undefined ? problemCase(problem, given, SOME_DTYPE) : { flops: 0, bytes: 0 };
  const wrong = flops < 0 || bytes < 0 ? `work must be at least 0, got ${flops} flops and ${bytes} bytes` : extent;
  return wrong === undefined
    ? []
    : [{ field: '', description: `${problem.id}: ${wrong}; correct it in problem.yaml, or \`require\` another case` }];
}

/** Used where any dtype serves, because the values are finite in every dtype or in none. */
const SOME_DTYPE: TensorDtype = TENSOR_DTYPES[0];

/** Limit on keys, because a list of keys is drawn from an array of all keys. */
const MOST_KEYS = 2 ** 24;

/** The expressions of a drawing rule whose values are counts. */
function drawnExtents(draw: ProblemTensor['draw']): Expression[] {
  switch (draw?.kind) {
    case 'lengths':
      return [draw.most, draw.sum, draw.page, draw.multipleOf].filter((each) => each !== undefined);
    case 'pages':
      return [draw.page, draw.pool];
    case 'selected':
      return draw.queries === undefined ? [draw.keys] : [draw.keys, draw.queries];
    case 'page_offsets':
    case 'last_pages':
      return [draw.page];
    default:
      return [];
  }
}

/** Refuses a table that has no room for the values that its rule draws. */
function drawViolation(problem: Problem, { name, draw, dims }: ProblemTensor, values: CaseValues): FieldViolation[] {
  const lengths = (of: string): ProblemTensor => problem.tensors.find((tensor) => tensor.name === of)!;
  const refused = (description: string): FieldViolation[] => [{ field: '', description }];
  for (const written of drawnExtents(draw)) {
    const extent = evaluate(written, values);
    const isTooMuch = draw?.kind === 'selected' && extent > MOST_KEYS;
    const wrong = extentProblem(extent) ?? (isTooMuch ? `must be at most ${MOST_KEYS}, got ${extent}` : undefined);
    if (wrong !== undefined) return refused(`${name} of ${problem.id} is drawn by ${written.text}: ${wrong}`);
  }
  if (draw?.kind === 'lengths' && draw.most && draw.multipleOf) {
    const [most, multiple] = [draw.most, draw.multipleOf].map((extent) => evaluate(extent, values)) as [number, number];
    return most % multiple === 0
      ? []
      : refused(
          `${draw.most.text} must be a multiple of ${multiple}, as all ${name} of ${problem.id} are, got ${most}`,
        );
  }
  if (draw?.kind === 'selected') return selectedViolation(problem, name, values);
  if (!draw || draw.kind === 'lengths') return [];
  const extents = dims.map((dim) => evaluate(dim, values));
  const ofEach = evaluate(lengths(draw.of).dims[0]!, values);
  if (draw.kind !== 'pages') {
    const more = draw.kind === 'last_pages' ? 0 : 1;
    return extents[0] === ofEach + more
      ? []
      : refused(
          `${name} of ${problem.id} must have ${ofEach + more} elements, ${more ? 'one more than' : 'as many as'} ${draw.of}, got ${extents[0]}`,
        );
  }
  const { draw: ofLengths } = lengths(draw.of);
  const [page, pool] = [draw.page, draw.pool].map((extent) => evaluate(extent, values)) as [number, number];
  const most = ofLengths?.kind === 'lengths' && ofLengths.most ? evaluate(ofLengths.most, values) : 0;
  const needed = Math.ceil(most / page);
  const sequences = extents.length === 1 ? ofEach : extents[0]!;
  if (extents.length === 1 ? extents[0]! < sequences * needed : extents[1]! < needed)
    return refused(
      extents.length === 1
        ? `${name} of ${problem.id} must have ${sequences * needed} pages for ${sequences} sequences, got ${extents[0]}`
        : `${name} of ${problem.id} must have ${needed} pages a sequence for ${most} rows, got ${extents[1]}`,
    );
  return pool >= sequences * needed
    ? []
    : refused(`${draw.pool.text} must be at least ${sequences * needed}, the pages of all sequences, got ${pool}`);
}

/** Refuses lists of keys for other sequences, heads or queries than those of Q and K. */
function selectedViolation(problem: Problem, name: string, values: CaseValues): FieldViolation[] {
  const { operands, tables } = problem.operands;
  // If the problem has its own reference, a table may have any meaning, so nothing is checked.
  if (operands.selected?.tensor !== name) return [];
  const extent = (operand: OperandName, axis: OperandAxis): number | undefined => {
    const { tensor, axes } = operands[operand]!;
    const dim = problem.tensors.find((each) => each.name === tensor)?.dims[axes.indexOf(axis)];
    return dim && evaluate(dim, values);
  };
  const { draw } = problem.tensors.find((tensor) => tensor.name === name)!;
  const queries = draw?.kind === 'selected' && draw.queries ? evaluate(draw.queries, values) : 1;
  const rows = Math.ceil((extent('q', 's') ?? 1) / queries);
  const keys = draw?.kind === 'selected' ? evaluate(draw.keys, values) : 0;
  // In a paged cache, the sequence lengths limit a list; the number of rows does not.
  const most = tables.page_table ? keys : (extent('k', 's') ?? 1);
  const wrong = [
    ['sequences', extent('selected', 'b'), tables.query_offsets ? undefined : (extent('q', 'b') ?? 1)],
    ['heads of K', extent('selected', 'h'), extent('k', 'h') ?? 1],
    [queries === 1 ? 'queries' : `lists for each ${queries} queries`, extent('selected', 's'), rows],
  ].find(([, got, wanted]) => got !== undefined && wanted !== undefined && got !== wanted);
  if (wrong)
    return [{ field: '', description: `${name} of ${problem.id} must have ${wrong[2]} ${wrong[0]}, got ${wrong[1]}` }];
  if (keys <= most) return [];
  return [{ field: '', description: `${name} of ${problem.id} must select among the ${most} rows of K, got ${keys}` }];
}

/** A default that cannot be computed is NaN; an axis with neither value nor default is absent. */
function axisValues({ defaults }: Problem, given: CaseValues): Record<string, number> {
  const values: Record<string, number> = { ...given };
  for (const { name, default: expression } of defaults) {
    if (Object.hasOwn(values, name)) continue;
    if (expression.names.every((used) => Object.hasOwn(values, used)))
      setEntry(values, name, valueOr(Number.NaN, expression, values));
  }
  return values;
}

/** A change of a case's tensors that keeps right answers right (ProblemSymmetry). */
type CaseSymmetry = Pick<ProblemSymmetry, 'act' | 'axis' | 'dims'>;

/** A case as plain data, for code that draws, computes or compares its tensors. */
export interface ProblemCase {
  /** The problem's id. */
  readonly problem: string;
  readonly operation: Operation;
  readonly operands: Operands;
  /** Seconds that the problem gives its own reference for a case; undefined if it does not say. */
  readonly referenceLimitS?: number | undefined;
  /** The kernel's dtype, for all tensors without one of their own. */
  readonly dtype: TensorDtype;
  /** All axes and attributes. */
  readonly values: CaseValues;
  readonly tensors: readonly TensorExtent[];
  /** The symmetries that hold for the case. */
  readonly symmetries: readonly CaseSymmetry[];
  /** Floating-point operations that the problem counts. */
  readonly flops: number;
  /** Minimum traffic with device memory, in bytes. */
  readonly bytes: number;
}

/**
 * Whether PyTorch's plain attention computes the case: K and V have the heads, length and dtype of Q, which has more
 * than 8 bits, and the only mask is causal.
 */
export function isPlainAttention({ operation, operands: { operands }, tensors, values }: ProblemCase): boolean {
  const { causal = 0, window = -1, softcap = 0 } = values;
  const always = tensors.filter(({ optional }) => !optional);
  const isMore = BEYOND_PLAIN.some((name) => always.some((tensor) => tensor.name === operands[name]?.tensor));
  const extents = new Set(always.map(({ dims, dtype }) => `${dims.join()} ${dtype}`));
  const small = always.some(({ dtype }) => isSmall(dtype));
  return (
    !small && operation === 'attention' && !isMore && extents.size === 1 && causal <= 1 && window < 0 && softcap === 0
  );
}

const BEYOND_PLAIN = ['sinks', 'alibi_slopes', 'bias', 'selected'] as const;

/** Requires that axisViolations() is empty. Optional outputs are left out, except those in `declared`. */
export function problemCase(
  problem: Problem,
  given: CaseValues,
  dtype: TensorDtype,
  declared: ReadonlySet<string> = NONE,
): ProblemCase {
  const values = caseValues(problem, given);
  const tensors = tensorExtents(problem, values, dtype, declared);
  return {
    flops: flopsOf(problem, values),
    bytes: bytesOf(problem, values, dtype, declared),
    problem: problem.id,
    operation: problem.operation,
    operands: problem.operands,
    ...(problem.referenceLimitS !== undefined && { referenceLimitS: problem.referenceLimitS }),
    dtype,
    values,
    tensors,
    symmetries: symmetriesOfCase(problem, { values, tensors }).map(({ act, axis, dims }) => ({ act, axis, dims })),
  };
}

/** The symmetries of a problem that hold for a case. */
export function symmetriesOfCase(
  { symmetries }: Problem,
  { values, tensors }: Pick<ProblemCase, 'values' | 'tensors'>,
): ProblemSymmetry[] {
  // Doubling a drawn 8-bit integer may give a number that 8 bits cannot hold.
  const isIntegers = (name: string): boolean =>
    tensors.some((tensor) => tensor.name === name && tensor.direction === 'in' && tensor.dtype === 'int8');
  return symmetries
    .filter(({ when }) => when === undefined || evaluate(when, values) !== 0)
    .filter(({ act, dims }) => act !== 'double' || !Object.keys(dims).some(isIntegers));
}

const NONE: ReadonlySet<string> = new Set();

/** The tensors of a case, in the problem's order, without optional outputs that are not in `declared`. */
export function tensorExtents(
  problem: Problem,
  values: CaseValues,
  dtype: TensorDtype,
  declared: ReadonlySet<string> = NONE,
): TensorExtent[] {
  const derived = derivedInputs(problem.operation).flatMap((name) => problem.operands.operands[name]?.tensor ?? []);
  return problem.tensors
    .filter((tensor) => isPresent(tensor, values) && (!tensor.optional || declared.has(tensor.name)))
    .map((tensor) => ({
      name: tensor.name,
      direction: tensor.direction,
      role: tensor.role,
      dims: dimsOf(tensor, values),
      dtype: dtypeOfTensor(tensor, dtype),
      ...(derived.includes(tensor.name) && { draw: { kind: 'derived' } as const }),
      ...(tensor.draw && { draw: drawOf(tensor.draw, values) }),
      ...(tensor.rows && { rows: tensor.rows }),
      ...(tensor.tolerance !== undefined && { tolerance: tensor.tolerance }),
      ...(tensor.rounds !== undefined && { rounds: tensor.rounds }),
      ...(tensor.optional && { optional: true as const }),
    }));
}

/** Whether the case has the tensor. Kernels may still lack outputs that the case has. */
const isPresent = ({ when }: ProblemTensor, values: CaseValues): boolean =>
  when === undefined || evaluate(when, values) !== 0;

function drawOf(rule: DrawRule<Expression>, values: CaseValues): DrawRule<number> {
  switch (rule.kind) {
    case 'offsets':
      return rule;
    case 'pages':
      return { ...rule, page: evaluate(rule.page, values), pool: evaluate(rule.pool, values) };
    case 'selected':
      return {
        kind: 'selected',
        keys: evaluate(rule.keys, values),
        ...(rule.of !== undefined && { of: rule.of, owner: rule.owner }),
        ...(rule.queries && { queries: evaluate(rule.queries, values) }),
      };
    case 'page_offsets':
    case 'last_pages':
      return { ...rule, page: evaluate(rule.page, values) };
    case 'lengths': {
      const { most, sum, page, multipleOf } = rule;
      return {
        kind: 'lengths',
        ...(multipleOf && { multipleOf: evaluate(multipleOf, values) }),
        ...(most && { most: evaluate(most, values) }),
        ...(sum && { sum: evaluate(sum, values) }),
        ...(page && { page: evaluate(page, values) }),
      };
    }
  }
}

export const elementsOfTensor = ({ dims }: Pick<TensorExtent, 'dims'>): number =>
  dims.reduce((product, extent) => product * extent, 1);

export const bytesOfTensor = (tensor: Pick<TensorExtent, 'dims' | 'dtype'>): number =>
  elementsOfTensor(tensor) * DTYPE_BYTES[tensor.dtype];

/** Elements of the largest tensor. */
export const mostElements = (problem: Problem, values: CaseValues): number =>
  Math.max(
    ...problem.tensors
      .filter((tensor) => isPresent(tensor, values))
      .map((tensor) => elementsOfTensor({ dims: dimsOf(tensor, values) })),
  );

/** Floating-point operations that the problem counts. */
export const flopsOf = ({ flops }: Problem, values: CaseValues): number => evaluate(flops, values);

/** Minimum traffic with device memory in bytes: the problem's expression, or every tensor once. */
export const bytesOf = (
  problem: Problem,
  values: CaseValues,
  dtype: TensorDtype,
  declared: ReadonlySet<string> = NONE,
): number =>
  problem.bytes
    ? evaluate(problem.bytes, { ...values, [DTYPE_SIZE]: DTYPE_BYTES[dtype] })
    : tensorBytes(tensorExtents(problem, values, dtype, declared));

/** Memory of tensors. */
export const tensorBytes = (tensors: readonly TensorExtent[]): number =>
  tensors.reduce((sum, tensor) => sum + bytesOfTensor(tensor), 0);

const dimsOf = ({ dims }: ProblemTensor, values: CaseValues): number[] =>
  dims.map((extent) => evaluate(extent, values));
