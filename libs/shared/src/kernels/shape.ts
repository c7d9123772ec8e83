/**
 * Converts cases to and from text and messages. Only this file knows attention's short names and that the contract has
 * fields for B, H, S, D and `causal`.
 */
import { create } from '@bufbuild/protobuf';
import { FlashcoreError, type FieldViolation, invalidRequest } from '../contract/errors.ts';
import type { TensorDtype } from '../data/dtype.ts';
import { type Shape, ShapeSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  type CaseValues,
  type ProblemCase,
  axisViolations,
  bytesOf,
  caseValues,
  flopsOf,
  mostElements,
  problemCase,
  tensorBytes,
  tensorExtents,
} from '../problems/case-values.ts';
import { DEFAULT_PROBLEM, installedProblem } from '../problems/installed-problems.ts';
import type { Problem } from '../problems/problem.ts';
import { entryOf } from '../text/entry-of.ts';

// Most kernels use 32-bit indices into a tensor.
const MAX_TENSOR_ELEMENTS = 2 ** 31 - 1;
const MAX_VALUES = 32;

/** The fields of the proto's Shape. */
export type ShapeFields = Pick<Shape, 'batch' | 'heads' | 'sequenceLength' | 'headDim' | 'causal'> &
  Partial<Pick<Shape, 'values' | 'name'>>;

const SHORT = /^(\d{1,10})x(\d{1,10})x(\d{1,10})x(\d{1,10})(c?)$/i;
const PAIR = /^((?!__)[A-Za-z_]\w{0,31})=(-?\d{1,12}(?:\.\d{1,12})?)$/;
/** An integer of more digits than PAIR reads. */
const LARGE = /^([A-Za-z_]\w{0,31})=-?\d{13,400}$/;
const NAME = /^[A-Za-z][\w .:+()/-]{0,47}$/;
const EXTENT = 'must be an integer of 1 to 2147483647';
const TOO_LARGE = `${EXTENT}, got a number of more than 12 digits`;
/** Names of the message fields for axes that have one. */
const FIELDS = { B: 'batch', H: 'heads', S: 'sequence_length', D: 'head_dim' } as const;

/**
 * Reads "2x8x512x64c" (BxHxSxD, "c" for a causal mask), named values such as "rows=128,N=4096", or both:
 * "2x8x512x64c,Hkv=2". Errors: INVALID_REQUEST.
 */
export function parseShape(text: string): Shape {
  const [first = '', ...rest] = text.trim().split(',');
  const short = SHORT.exec(first);
  const values = new Map<string, number>();
  if (short) for (const [axis, extent] of Object.entries(short4(short))) values.set(axis, extent);
  if (short?.[5]) values.set('causal', 1);
  for (const pair of short ? rest : [first, ...rest]) {
    const [, large] = LARGE.exec(pair.trim()) ?? [];
    if (large !== undefined) throw invalidRequest({ field: `shape.values.${large}`, description: TOO_LARGE });
    const [, name, value] = PAIR.exec(pair.trim()) ?? [];
    if (name === undefined || values.has(name)) throw unreadable(text);
    values.set(name, Number(value));
  }
  const shape = shapeOf(Object.fromEntries(values));
  const violations = shapeViolations(shape, 'shape');
  if (violations.length > 0) throw invalidRequest(...violations);
  return shape;
}

/** The form of a case's name, in words. It never looks like the text of a shape, so that one option takes both. */
export const CASE_NAME_FORM =
  'a name of at most 48 letters, digits, spaces and . : + ( ) / _ -, which begins with a letter';

export const isCaseName = (text: string): boolean => NAME.test(text) && !text.endsWith(' ');

/** Reads a shape, or a case's name, which the runner looks up in the problem's cases.yaml. Errors: INVALID_REQUEST. */
export const parseCase = (text: string): Shape =>
  isCaseName(text.trim()) ? create(ShapeSchema, { name: text.trim() }) : parseShape(text);

/** Whether a shape only names a case. */
export const isOnlyNamed = (shape: ShapeFields): boolean =>
  (shape.name ?? '') !== '' && Object.keys(valuesOf(shape)).length === 0;

const short4 = (match: RegExpExecArray): Record<string, number> =>
  Object.fromEntries(Object.keys(FIELDS).map((axis, index) => [axis, Number(match[index + 1])]));

const unreadable = (text: string): FlashcoreError =>
  new FlashcoreError(
    'INVALID_REQUEST',
    { shape: text },
    `Shape "${text}": must be such as 2x8x512x64 (batch x heads x sequence length x head dimension; append c for causal), or name the problem's axes, such as rows=128,N=4096`,
    { violations: [{ field: 'shape', description: 'not of the form BxHxSxD, BxHxSxDc or NAME=VALUE,…' }] },
  );

/** Converts a case to a message. */
export function shapeOf({ B = 0, H = 0, S = 0, D = 0, causal = 0, ...values }: CaseValues): Shape {
  const isFlag = causal === 0 || causal === 1;
  return create(ShapeSchema, {
    batch: B,
    heads: H,
    sequenceLength: S,
    headDim: D,
    causal: causal === 1,
    values: isFlag ? values : { ...values, causal },
  });
}

/** The values of a case, by the names of axes and attributes. */
export function valuesOf({ batch, heads, sequenceLength, headDim, causal, values }: ShapeFields): CaseValues {
  return {
    ...(batch !== 0 && { B: batch }),
    ...(heads !== 0 && { H: heads }),
    ...(sequenceLength !== 0 && { S: sequenceLength }),
    ...(headDim !== 0 && { D: headDim }),
    ...(causal && { causal: 1 }),
    ...values,
  };
}

/** The inverse of parseShape(), without the case's name. It sorts names, so that a case has exactly one text. */
export function formatShape(shape: ShapeFields): string {
  const { B, H, S, D, causal, ...values } = valuesOf(shape);
  const hasShortName = [B, H, S, D].every((extent) => extent !== undefined) && (causal ?? 1) === 1;
  const named = hasShortName ? values : valuesOf(shape);
  const pairs = Object.keys(named)
    .toSorted()
    .map((name) => `${name}=${entryOf(named, name)}`);
  return [...(hasShortName ? [`${B}x${H}x${S}x${D}${causal ? 'c' : ''}`] : []), ...pairs].join(',');
}

/** A shape with the name of its case, such as "N=4096,rows=4096 (Llama-3 8B 4k tokens)". */
export const formatCase = (shape: ShapeFields): string =>
  shape.name ? `${formatShape(shape)} (${shape.name})` : formatShape(shape);

/**
 * Checks a shape before its kernel, and so its problem, is known. A shape without named values must be a case of
 * attention; caseViolations() checks named values later.
 */
export function shapeViolations(shape: Omit<ShapeFields, 'causal'>, field: string): FieldViolation[] {
  const { values = {}, name = '' } = shape;
  if (name !== '' && !isCaseName(name)) return [{ field: `${field}.name`, description: `must be ${CASE_NAME_FORM}` }];
  if (isOnlyNamed({ causal: false, ...shape })) return [];
  const names = Object.keys(values);
  if (names.length === 0) return caseViolations(attention(), { ...shape, causal: false }, field);
  if (names.length > MAX_VALUES)
    return [{ field: `${field}.values`, description: `must have at most ${MAX_VALUES} names` }];
  if (names.some((name) => !PAIR.test(`${name}=0`) || !Number.isFinite(entryOf(values, name))))
    return [{ field: `${field}.values`, description: 'must be finite numbers by names of axes and attributes' }];
  const own = names.filter(
    (name) => Object.hasOwn(FIELDS, name) || (name === 'causal' && [0, 1].includes(values[name]!)),
  );
  return own.map((name) => ({
    field: `${field}.values`,
    description: `must not have ${name}, which has a field of its own`,
  }));
}

/**
 * Checks that a shape is a case of a problem: every axis has a value, every name exists, extents are 1 to 2^31 - 1, the
 * problem's conditions hold, and no tensor has more than 2^31 - 1 elements.
 */
export function caseViolations(problem: Problem, shape: ShapeFields, field: string): FieldViolation[] {
  const given = valuesOf(shape);
  const violations = axisViolations(problem, given).map(({ field: axis, description }) => ({
    field: fieldOf(field, axis),
    // In a message, a field with value 0 looks the same as an absent field.
    description: Object.hasOwn(FIELDS, axis)
      ? description.replace(/^must be given:/, `${EXTENT}, got 0 or none:`)
      : description,
  }));
  if (violations.length > 0) return violations;
  const values = caseValues(problem, given);
  const largest = mostElements(problem, values);
  if (largest > MAX_TENSOR_ELEMENTS)
    return [{ field, description: `must have at most ${MAX_TENSOR_ELEMENTS} elements a tensor, got ${largest}` }];
  const bytes = bytesOf(problem, values, 'fp16');
  if (!(bytes > 0))
    return [{ field, description: `work.bytes must be above 0, got ${bytes}: correct problem.yaml of ${problem.id}` }];
  const flops = flopsOf(problem, values);
  return flops < 0
    ? [{ field, description: `work.flops must be at least 0, got ${flops}: correct problem.yaml of ${problem.id}` }]
    : [];
}

const fieldOf = (field: string, axis: string): string => {
  if (axis === '') return field;
  return Object.hasOwn(FIELDS, axis) ? `${field}.${FIELDS[axis as keyof typeof FIELDS]}` : `${field}.values.${axis}`;
};

/** All axes and attributes of a case, as manifests' expressions see them. */
export const scopeOfShape = (problem: Problem, shape: ShapeFields): CaseValues => caseValues(problem, valuesOf(shape));

/** Elements of the largest tensor. */
export const tensorElements = (problem: Problem, shape: ShapeFields): number =>
  mostElements(problem, scopeOfShape(problem, shape));

/** Floating-point operations by the problem's formula. */
export const caseFlops = (problem: Problem, shape: ShapeFields): number =>
  flopsOf(problem, scopeOfShape(problem, shape));

/** Memory of all tensors except optional ones. */
export const caseBytes = (problem: Problem, shape: ShapeFields, dtype: TensorDtype): number =>
  tensorBytes(tensorExtents(problem, scopeOfShape(problem, shape), dtype));

export const sameShape = (a: ShapeFields, b: ShapeFields): boolean => formatShape(a) === formatShape(b);

/** A case of attention. */
export const attentionCase = (shape: ShapeFields, dtype: TensorDtype): ProblemCase =>
  problemCase(attention(), valuesOf(shape), dtype);

/** The default problem. */
export const attention = (): Problem => installedProblem(DEFAULT_PROBLEM);
