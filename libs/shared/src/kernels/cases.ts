/** cases.yaml: which shapes are verified, on which inputs, within which tolerance. */
import { create } from '@bufbuild/protobuf';
import type { z } from 'zod';
import { FlashcoreError } from '../contract/errors.ts';
import { type Shape, ShapeSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { didYouMean } from '../text/nearest-names.ts';
import type { TensorDtype } from './dtype.ts';
import { sha256Of } from './source-tree.ts';
import {
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
  wanted,
} from './yaml-file.ts';

const MAX_INT32 = 2 ** 31 - 1;
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
] as const;

/** How a tensor is drawn; cases.yaml says what each is. */
export type InputKind = (typeof INPUT_KINDS)[number];

/** |out - ref| <= atol + rtol |ref|. */
export interface Tolerance {
  readonly atol: number;
  readonly rtol: number;
}

/** For fp16 tensors, and for those whose numbers are finer or coarser. */
export interface ToleranceProfile extends Tolerance {
  readonly bf16: Tolerance;
  readonly fp32: Tolerance;
}

/** `logitScale` multiplies Q, `valueScale` V. */
export interface Distribution {
  readonly name: string;
  readonly q: InputKind;
  readonly k: InputKind;
  readonly v: InputKind;
  readonly logitScale: number;
  readonly valueScale: number;
  readonly about: string;
  /** Faulty kernels that its inputs find. */
  readonly finds: readonly string[];
}

/** Small cases on the inputs that break known mistakes, run beside the parity cases. */
export interface Probes {
  /** The first that a kernel takes, with a causal mask and without. */
  readonly shapes: readonly Shape[];
  readonly distributions: readonly Distribution[];
  /** What only a long sequence shows, which takes the emulator minutes. */
  readonly long: Pick<Probes, 'shapes' | 'distributions'>;
}

export interface Cases {
  /** SHA-256 of the file. */
  readonly digest: string;
  readonly tolerances: Readonly<Record<string, ToleranceProfile>>;
  /** Those that an input's seeds walk through, in order. */
  readonly distributions: Readonly<Record<string, Distribution>>;
  readonly probes: Probes;
  /** `parity`, `canonical`, `emulated` and others, each at least one shape. */
  readonly sets: Readonly<Record<string, readonly Shape[]>> & {
    readonly parity: readonly Shape[];
    readonly canonical: readonly Shape[];
    readonly emulated: readonly Shape[];
  };
  /** Used where a request names none. */
  readonly defaults: {
    readonly set: string;
    readonly tolerance: string;
    readonly seeds: number;
    readonly distribution: string;
  };
}

const name = matching(/^[a-z][a-z0-9_]{0,31}$/, 'a name of lower-case letters, digits and "_"');
const positive = () =>
  finite().refine((value) => value >= 0, { error: (issue) => wanted('a number of at least 0', issue.input) });
const extent = () => integer(1, MAX_INT32);
const shape = strict({ B: extent(), H: extent(), S: extent(), D: extent(), causal: flag() }).transform(
  ({ B, H, S, D, causal }) => create(ShapeSchema, { batch: B, heads: H, sequenceLength: S, headDim: D, causal }),
);
const inputKind = oneOf(INPUT_KINDS);

const distribution = strict({
  q: inputKind,
  k: inputKind,
  v: inputKind,
  logit_scale: finite().default(1),
  value_scale: finite().default(1),
  about: text(),
  finds: listOf(name).default([]),
});

type WrittenDistribution = z.infer<typeof distribution>;

const tolerance = { atol: positive(), rtol: positive() };
const NO_PROBES = { shapes: [], distributions: {} };

const casesSchema = strict({
  tolerances: mapOf(
    name,
    strict({ ...tolerance, bf16: strict(tolerance).optional(), fp32: strict(tolerance).optional() }),
  ),
  defaults: strict({ set: name, tolerance: name, seeds: integer(1, 100), distribution: name }),
  distributions: mapOf(name, distribution),
  probes: strict({
    shapes: listOf(shape),
    distributions: mapOf(name, distribution),
    long: strict({ shapes: listOf(shape), distributions: mapOf(name, distribution) }).default(NO_PROBES),
  }).default({ ...NO_PROBES, long: NO_PROBES }),
  sets: mapOf(name, listOf(shape).min(1, 'wanted at least one shape')),
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
  for (const profile of ['parity', cases.defaults.tolerance])
    require(['tolerances'], profile, Object.keys(cases.tolerances));
  require(['defaults', 'distribution'], cases.defaults.distribution, Object.keys(cases.distributions));
});

/** Reads cases.yaml; `path` is for texts. Errors: INVALID_MANIFEST with path and key. */
export function parseCases(yamlText: string, path: string): Cases {
  const { value } = parseYamlFile(yamlText, path, casesSchema);
  return {
    digest: sha256Of(yamlText),
    tolerances: Object.fromEntries(
      Object.entries(value.tolerances).map(([key, { bf16, fp32, ...fp16 }]) => [
        key,
        { ...fp16, bf16: bf16 ?? fp16, fp32: fp32 ?? fp16 },
      ]),
    ),
    defaults: value.defaults,
    distributions: Object.fromEntries(distributionsOf(value.distributions).map((each) => [each.name, each])),
    probes: { ...probesOf(value.probes), long: probesOf(value.probes.long) },
    sets: value.sets as Record<'parity' | 'canonical' | 'emulated', Shape[]>,
  };
}

const MAX_HELD_OUT = 32;

const heldOutSchema = strict({ shapes: listOf(shape).min(1, 'wanted at least one shape').max(MAX_HELD_OUT) });

/**
 * Reads the shapes that a host keeps to itself, `shapes: [{ B, H, S, D, causal }, …]`; `path` is for texts. Errors:
 * INVALID_MANIFEST with path and key.
 */
export const parseHeldOut = (yamlText: string, path: string): Shape[] =>
  parseYamlFile(yamlText, path, heldOutSchema).value.shapes;

const distributionsOf = (written: Readonly<Record<string, WrittenDistribution>>): Distribution[] =>
  Object.entries(written).map(([key, { logit_scale: logitScale, value_scale: valueScale, ...rest }]) => ({
    name: key,
    logitScale,
    valueScale,
    ...rest,
  }));

interface WrittenProbes {
  shapes: readonly Shape[];
  distributions: Readonly<Record<string, WrittenDistribution>>;
}

const probesOf = ({ shapes, distributions }: WrittenProbes): Pick<Probes, 'shapes' | 'distributions'> => ({
  shapes,
  distributions: distributionsOf(distributions),
});

/** The tolerance of that name for tensors of a dtype. Errors: INVALID_REQUEST naming the known profiles. */
export function toleranceProfile(cases: Cases, profile: string, dtype: TensorDtype = 'fp16'): Tolerance {
  const found = Object.hasOwn(cases.tolerances, profile) ? cases.tolerances[profile] : undefined;
  if (found) {
    const { atol, rtol } = dtype === 'fp16' ? found : found[dtype];
    return { atol, rtol };
  }
  const known = Object.keys(cases.tolerances);
  throw new FlashcoreError(
    'INVALID_REQUEST',
    { profile },
    `Unknown tolerance profile "${profile}": known are ${known.join(', ')}`,
    {
      violations: [
        { field: 'tolerance.profile', description: `wanted one of ${known.join(', ')}, found "${profile}"` },
      ],
    },
  );
}
