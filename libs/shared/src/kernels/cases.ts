/** Parses cases.yaml: which shapes are verified, on which inputs, and with which tolerance. */
import * as z from 'zod';
import { FlashcoreError, invalidRequest } from '../contract/errors.ts';
import type { Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { didYouMean } from '../text/nearest-names.ts';
import { DTYPES, TENSOR_DTYPES, type TensorDtype, isSmall } from '../data/dtype.ts';
import { sha256Of } from '../contract/digest.ts';
import { axisViolations } from '../problems/case-values.ts';
import type { Problem } from '../problems/problem.ts';
import { INT32 } from './launch-limits.ts';
import { CASE_NAME_FORM, attention, formatShape, isCaseName, isOnlyNamed, shapeOf, valuesOf } from './shape.ts';
import {
  type YamlFault,
  finite,
  flag,
  integer,
  listOf,
  mapOf,
  matching,
  oneOf,
  parseYamlFile,
  strict,
  text,
  mustBe,
} from '../data/yaml-file.ts';
import { entryOf } from '../text/entry-of.ts';

const INPUT_KINDS = [
  'normal',
  'constant',
  'one_hot',
  'along',
  'near',
  'either_way',
  'rising',
  'falling',
  'far',
  'one_far',
  'two_steps',
  'largest',
  'subnormal',
  'spread',
  'positive',
  'few',
  'channels_up',
  'channels_down',
  'outlier_channels',
  'outlier_elements',
  'lone_elements',
  'every_exponent',
  'repeated',
  'two_scales',
  'toward',
  'few_far',
  'far_steps',
  'half_weight',
  'rows_apart',
  'rows_far_apart',
  'rows_larger',
  'upper_half',
  'lone_row',
  'one_sign',
  'lone_channel',
  'lone_upper_half',
  'lone_element',
  'cancelling',
] as const;

/** How a tensor is drawn; cases.yaml describes each kind. */
export type InputKind = (typeof INPUT_KINDS)[number];

/** |out - ref| <= atol + rtol |ref|. */
export interface Tolerance {
  readonly atol: number;
  readonly rtol: number;
}

/** Tolerances by the kernel's dtype. */
type ToleranceProfile = Readonly<Record<TensorDtype, Tolerance>>;

/**
 * `logitScale` multiplies Q, `keyScale` multiplies K (absent: 1), `valueScale` multiplies V. A gradient such as dO has
 * V's kind and scale if it has none of its own.
 */
export interface Distribution {
  readonly name: string;
  readonly q: InputKind;
  readonly k: InputKind;
  readonly v: InputKind;
  readonly gradient?: InputKind | undefined;
  readonly logitScale: number;
  readonly keyScale?: number | undefined;
  readonly valueScale: number;
  readonly gradientScale?: number | undefined;
  readonly about: string;
  /** Only for kernels that sum in fp32: partial sums exceed the largest number of fp16, although results do not. */
  readonly sums?: 'fp32' | undefined;
  /** Faulty kernels that these inputs find. */
  readonly finds: readonly string[];
}

/** Small cases on inputs that find known mistakes, run along with the parity cases. */
export interface Probes {
  /** In order of preference: for each combination of attributes, a kernel runs the first shape of each width. */
  readonly shapes: readonly Shape[];
  readonly distributions: readonly Distribution[];
  /** Probes that need a long sequence, which takes the emulator minutes. */
  readonly long: Pick<Probes, 'shapes' | 'distributions'>;
}

export interface Cases {
  /** SHA-256 of the file. */
  readonly digest: string;
  readonly tolerances: Readonly<Record<string, ToleranceProfile>>;
  /** Distributions by name; an input's seeds go through them in this order. */
  readonly distributions: Readonly<Record<string, Distribution>>;
  readonly probes: Probes;
  /** Case sets by name: `parity`, `canonical`, `emulated` and others, each with at least one shape. */
  readonly sets: Readonly<Record<string, readonly Shape[]>> & {
    readonly parity: readonly Shape[];
    readonly canonical: readonly Shape[];
    readonly emulated: readonly Shape[];
  };
  /** For each set, the weights of its shapes in their geometric mean, in the order of the shapes. */
  readonly weights: Readonly<Record<string, readonly number[]>>;
  /** Values for the fields that a request leaves out. */
  readonly defaults: {
    readonly set: string;
    readonly tolerance: string;
    readonly seeds: number;
    readonly distribution: string;
  };
}

const name = matching(/^[a-z][a-z0-9_]{0,31}$/, 'a name of lower-case letters, digits and "_"');
const positive = () =>
  finite().refine((value) => value >= 0, { error: (issue) => mustBe('a number of at least 0', issue.input) });
const extent = () => integer(1, INT32.most);
/** The keys of a case in cases.yaml: axes without a default are required, other axes and attributes optional. */
const extentsOf = ({ axes, attributes }: Problem) => ({
  ...Object.fromEntries(
    axes.map(({ name: axis, default: fallback }) => [axis, fallback ? extent().optional() : extent()]),
  ),
  ...Object.fromEntries(
    attributes.filter(({ value }) => value === undefined).map(({ name: attribute }) => [attribute, attributeValue()]),
  ),
});
const attributeValue = () =>
  z
    .union([flag().transform(Number), finite()], { error: (issue) => mustBe('true, false or a number', issue.input) })
    .optional();
const caseOf = ({ name: ofCase, ...written }: Readonly<Record<string, unknown>>): Shape => {
  const isName = typeof ofCase === 'string';
  const values = Object.entries(isName ? written : { name: ofCase, ...written });
  const shape = shapeOf(
    Object.fromEntries(values.filter((entry): entry is [string, number] => entry[1] !== undefined)),
  );
  return isName ? { ...shape, name: ofCase } : shape;
};
const shapeSchema = (problem: Problem) => strict(extentsOf(problem)).transform(caseOf);
const MAX_WEIGHT = 1000;
const weight = () =>
  finite().refine((value) => value > 0 && value <= MAX_WEIGHT, {
    error: (issue) => mustBe(`a number above 0 and at most ${MAX_WEIGHT}`, issue.input),
  });
const caseName = z.string().refine(isCaseName, { error: (issue) => mustBe(CASE_NAME_FORM, issue.input) });
const weightedSchema = (problem: Problem) =>
  // If the problem has an axis called `name`, `name` is that axis, and the problem's cases have no names.
  strict({ name: caseName.optional(), ...extentsOf(problem), weight: weight().default(1) }).transform(
    ({ weight: ofCase, ...written }) => ({
      shape: caseOf(written),
      weight: ofCase,
    }),
  );
const inputKind = oneOf(INPUT_KINDS);

const distribution = strict({
  q: inputKind,
  k: inputKind,
  v: inputKind,
  gradient: inputKind.optional(),
  logit_scale: finite().default(1),
  key_scale: finite().optional(),
  value_scale: finite().default(1),
  gradient_scale: finite().optional(),
  sums: oneOf(['fp32']).optional(),
  about: text(),
  finds: listOf(name).default([]),
});

type WrittenDistribution = z.infer<typeof distribution>;

const tolerance = { atol: positive(), rtol: positive() };
/** The tolerances of a profile for dtypes other than fp16. A dtype without its own tolerance has that of fp16. */
const OTHER_DTYPES = Object.fromEntries(
  TENSOR_DTYPES.flatMap((dtype) => (dtype === 'fp16' ? [] : [[dtype, strict(tolerance).optional()]])),
) as Record<Exclude<TensorDtype, 'fp16'>, z.ZodOptional<ReturnType<typeof strict<typeof tolerance>>>>;
const NO_PROBES = { shapes: [], distributions: {} };

function casesSchema(problem: Problem) {
  const shape = shapeSchema(problem);
  return strict({
    tolerances: mapOf(
      name,
      strict({ ...tolerance, ...OTHER_DTYPES }).transform(({ atol, rtol, ...others }) => ({
        fp16: { atol, rtol },
        ...others,
      })),
    ),
    defaults: strict({ set: name, tolerance: name, seeds: integer(1, 100), distribution: name }),
    distributions: mapOf(name, distribution),
    probes: strict({
      shapes: listOf(shape),
      distributions: mapOf(name, distribution),
      long: strict({ shapes: listOf(shape), distributions: mapOf(name, distribution) }).default(NO_PROBES),
    }).default({ ...NO_PROBES, long: NO_PROBES }),
    sets: mapOf(name, listOf(weightedSchema(problem)).min(1, 'must have at least one shape')),
  }).superRefine((cases, context) => {
    const require = (path: string[], wantedName: string, names: string[]) => {
      if (!names.includes(wantedName))
        context.addIssue({
          code: 'custom',
          path,
          message: `"${wantedName}" is not defined${didYouMean(wantedName, names) || `: known are ${names.join(', ')}`}`,
        });
    };
    for (const set of ['parity', 'canonical', 'emulated', cases.defaults.set])
      require(['sets'], set, Object.keys(cases.sets));
    const ofOutputs = problem.tensors.flatMap(({ tolerance: named }) => named ?? []);
    for (const profile of ['parity', cases.defaults.tolerance, ...ofOutputs])
      require(['tolerances'], profile, Object.keys(cases.tolerances));
    require(['defaults', 'distribution'], cases.defaults.distribution, Object.keys(cases.distributions));
    for (const { path, message } of nameClashes(cases.sets)) context.addIssue({ code: 'custom', path, message });
  });
}

/**
 * A name belongs to one case, and a case has one name, in all sets together, because results are told apart by name and
 * shape.
 */
function nameClashes(
  sets: Readonly<Record<string, readonly Partial<WeightedShape>[]>>,
): { path: (string | number)[]; message: string }[] {
  const shapes = new Map<string, string>();
  const names = new Map<string, string>();
  return Object.entries(sets).flatMap(([set, cases]) =>
    cases.flatMap(({ shape }, index) => {
      // A case that another rule refused has no shape.
      if (!shape?.name) return [];
      const path = ['sets', set, index, 'name'];
      const text = formatShape(shape);
      const [other, known] = [shapes.get(shape.name) ?? text, names.get(text) ?? shape.name];
      shapes.set(shape.name, other);
      names.set(text, known);
      if (other !== text) return [{ path, message: `"${shape.name}" is the name of ${other}: give ${text} another` }];
      return known === shape.name ? [] : [{ path, message: `must be "${known}", which ${text} is called above` }];
    }),
  );
}

/**
 * A shape of a request with its name in cases.yaml. If the request gives only a name, the shape gets the values of the
 * case with this name. If the values are those of a named case, the shape gets its name. Any other name of the request
 * is dropped. Errors: INVALID_REQUEST.
 */
export function namedCase(asked: Shape, known: readonly Shape[], field: string): Shape {
  const named = known.filter(({ name: ofCase }) => ofCase !== '');
  if (!isOnlyNamed(asked)) {
    const text = formatShape(asked);
    return { ...asked, name: named.find((each) => formatShape(each) === text)?.name ?? '' };
  }
  const found = named.find(({ name: ofCase }) => ofCase === asked.name);
  if (found) return found;
  const names = [...new Set(named.map(({ name: ofCase }) => ofCase))];
  const all =
    names.length === 0 ? ': cases.yaml names no case' : `: named are ${names.map((each) => `"${each}"`).join(', ')}`;
  throw invalidRequest({
    field,
    description: `must be a shape or a case's name, got "${asked.name}"${didYouMean(asked.name, names) || all}`,
  });
}

/** The shapes of all sets, which may repeat. */
export const casesOf = ({ sets }: Pick<Cases, 'sets'>): Shape[] => Object.values(sets).flat();

/** Parses the cases.yaml of a problem; error messages show `path`. Errors: INVALID_MANIFEST with path and key. */
export function parseCases(yamlText: string, path: string, problem: Problem = attention()): Cases {
  const file = parseYamlFile(yamlText, path, casesSchema(problem));
  const { value } = file;
  const impossible = impossibleCases(problem, value);
  if (impossible.length > 0) throw file.refuse(impossible);
  return {
    digest: sha256Of(yamlText),
    tolerances: Object.fromEntries(
      Object.entries(value.tolerances).map(([key, written]) => [
        key,
        Object.fromEntries(TENSOR_DTYPES.map((dtype) => [dtype, written[dtype] ?? written.fp16])) as ToleranceProfile,
      ]),
    ),
    defaults: value.defaults,
    distributions: Object.fromEntries(distributionsOf(value.distributions).map((each) => [each.name, each])),
    probes: { ...probesOf(value.probes), long: probesOf(value.probes.long) },
    sets: ofSets(value.sets, (each) => each.shape) as Record<'parity' | 'canonical' | 'emulated', Shape[]>,
    weights: ofSets(value.sets, (each) => each.weight),
  };
}

interface WrittenCases {
  probes: { shapes: readonly Shape[]; long: { shapes: readonly Shape[] } };
  sets: Readonly<Record<string, readonly WeightedShape[]>>;
}

/** Faults of cases that the problem cannot have, such as one against a `require`, or with a tensor of no elements. */
function impossibleCases(problem: Problem, { probes, sets }: WrittenCases): YamlFault[] {
  const placed = [
    ...Object.entries(sets).flatMap(([set, cases]) =>
      cases.map(({ shape }, index) => ({ key: ['sets', set, index], shape })),
    ),
    ...probes.shapes.map((shape, index) => ({ key: ['probes', 'shapes', index], shape })),
    ...probes.long.shapes.map((shape, index) => ({ key: ['probes', 'long', 'shapes', index], shape })),
  ];
  return placed.flatMap(({ key, shape }) =>
    axisViolations(problem, valuesOf(shape)).map(({ field, description }) => ({
      key: field === '' ? key : [...key, field],
      message: description,
    })),
  );
}

interface WeightedShape {
  shape: Shape;
  weight: number;
}

const ofSets = <Value>(
  sets: Readonly<Record<string, readonly WeightedShape[]>>,
  valueOf: (each: WeightedShape) => Value,
): Record<string, Value[]> =>
  Object.fromEntries(Object.entries(sets).map(([set, shapes]) => [set, shapes.map(valueOf)]));

const MAX_HELD_OUT = 32;

const heldOutSchema = (problem: Problem) =>
  strict({ shapes: listOf(shapeSchema(problem)).min(1, 'must have at least one shape').max(MAX_HELD_OUT) });

/**
 * Parses a host's held-out shapes, `shapes: [{ B, H, S, D, causal }, …]`; error messages show `path`. Errors:
 * INVALID_MANIFEST with path and key.
 */
export const parseHeldOut = (yamlText: string, path: string): Shape[] =>
  parseYamlFile(yamlText, path, heldOutSchema(attention())).value.shapes;

const distributionsOf = (written: Readonly<Record<string, WrittenDistribution>>): Distribution[] =>
  Object.entries(written).map(
    ([
      key,
      {
        logit_scale: logitScale,
        key_scale: keyScale,
        value_scale: valueScale,
        gradient_scale: gradientScale,
        gradient,
        ...rest
      },
    ]) => ({
      name: key,
      logitScale,
      keyScale,
      valueScale,
      ...(gradient !== undefined && { gradient }),
      ...(gradientScale !== undefined && { gradientScale }),
      ...rest,
    }),
  );

interface WrittenProbes {
  shapes: readonly Shape[];
  distributions: Readonly<Record<string, WrittenDistribution>>;
}

const probesOf = ({ shapes, distributions }: WrittenProbes): Pick<Probes, 'shapes' | 'distributions'> => ({
  shapes,
  distributions: distributionsOf(distributions),
});

/** The tolerance with this name for tensors of a dtype. Errors: INVALID_REQUEST, which lists the known profiles. */
export function toleranceProfile(cases: Cases, profile: string, dtype: TensorDtype = 'fp16'): Tolerance {
  const found = entryOf(cases.tolerances, profile);
  if (found) return found[dtype];
  const known = Object.keys(cases.tolerances);
  throw new FlashcoreError(
    'INVALID_REQUEST',
    { profile },
    `Unknown tolerance profile "${profile}"${didYouMean(profile, known)}: cases.yaml has ${known.join(', ')}`,
    {
      violations: [{ field: 'tolerance.profile', description: `must be one of ${known.join(', ')}, got "${profile}"` }],
    },
  );
}

interface AbsoluteRelative {
  readonly absolute: number;
  readonly relative: number;
}

interface AskedTolerances {
  readonly tolerance: AbsoluteRelative;
  /** Result of outputTolerances(). */
  readonly ownTolerances: Readonly<Record<string, AbsoluteRelative>>;
}

/**
 * An output's own tolerance, or the request's. For an output in an 8-bit format, the tolerance includes the error of
 * rounding to the format.
 */
export function toleranceOfOutput(
  { tolerance: named, dtype }: { readonly tolerance?: string | undefined; readonly dtype: TensorDtype },
  { tolerance: asked, ownTolerances }: AskedTolerances,
): AbsoluteRelative {
  const { absolute, relative } = named === undefined ? asked : entryOf(ownTolerances, named)!;
  if (!isSmall(dtype)) return { absolute, relative };
  const { unit, smallest } = DTYPES[dtype].rounding;
  return { absolute: absolute + unit * smallest, relative: relative + (dtype === 'int8' ? 0 : unit) };
}

/** The tolerances that outputs name, for a kernel of a dtype. `cases` must belong to the problem. */
export function outputTolerances(
  { tensors }: Problem,
  cases: Cases,
  dtype: TensorDtype,
): Record<string, { absolute: number; relative: number }> {
  return Object.fromEntries(
    tensors.flatMap(({ tolerance: named }) => {
      if (named === undefined) return [];
      const { atol, rtol } = toleranceProfile(cases, named, dtype);
      return [[named, { absolute: atol, relative: rtol }]];
    }),
  );
}
