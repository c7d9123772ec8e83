/** The schema of kernel.yaml, before its expressions are parsed. */
import * as z from 'zod';
import { FindingKind } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { TENSOR_DTYPES, type TensorDtype, WORKSPACE_DTYPES, valueProblem } from '../data/dtype.ts';
import { ownGateSchema } from './gates/gate-schema.ts';
import { METRICS } from './gates/metrics.ts';
import { DEFAULT_PROBLEM } from '../problems/installed-problems.ts';
import { INT32, SWIZZLES, type Swizzle } from './launch-limits.ts';
import { parseShape } from './shape.ts';
import { didYouMean } from '../text/nearest-names.ts';
import {
  MAX_FAULTS,
  finite,
  flag,
  integer,
  listOf,
  mapOf,
  matching,
  oneOf,
  strict,
  text,
  mustBe,
} from '../data/yaml-file.ts';
import { entryOf } from '../text/entry-of.ts';
import type { EnumName } from '../contract/names.ts';

type FindingName = EnumName<typeof FindingKind>;
const FINDINGS = Object.keys(FindingKind).filter((name) => Number.isNaN(Number(name)) && name !== 'UNSPECIFIED') as [
  FindingName,
  ...FindingName[],
];

/** The form of an id, as a pattern and in words. */
export const KERNEL_ID = {
  pattern: /^[a-z][a-z0-9_]{0,63}$/,
  inWords: 'lower-case letters, digits and "_", at most 64',
} as const;

const kernelId = matching(KERNEL_ID.pattern, KERNEL_ID.inWords);
const cIdentifier = matching(/^(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'a C identifier');
/** The name in the compiled code; template arguments make it hundreds of characters long. */
const entryName = matching(
  /^(?!__)[A-Za-z_:](?!.*\/[/*])[\w :<>,*&()[\]+\-/%|^~!=.?$]{0,4095}$/,
  'a C identifier, a C++ name as it is mangled, or a C++ spelling like ns::kernel<64, true> of at most 4096 characters, without ; { } # quotes, backslashes, comments and line breaks',
);

/** Whether an entry is spelled in C++ instead of being a symbol of the compiled code. */
export const isSpelledEntry = (entry: string): boolean => /\W/.test(entry);
/** Compiler flags that a kernel may set. None of them reads or writes files or runs programs. */
const COMPILER_FLAGS = [
  '-std=c++17',
  '-std=c++20',
  '--expt-relaxed-constexpr',
  '--expt-extended-lambda',
  '--extra-device-vectorization',
  // For sources whose asserts do not compile, or cost time.
  '-DNDEBUG',
  '-Xptxas=-O1',
  '-Xptxas=-O2',
  '-Xptxas=-O3',
  '-Xptxas=-dlcm=ca',
  '-Xptxas=-dlcm=cg',
] as const;
// A parameter becomes -DNAME=value; capitals ensure that it does not replace a keyword, a type or a variable.
const MACRO_NAME = /^[A-Z][A-Z0-9_]{1,63}$/;
const isReserved = (name: string): boolean => /^(FLASHCORE|CUDA|NDEBUG)/.test(name);
const parameterName = matching(MACRO_NAME, 'a parameter name of two or more capitals, digits and "_"').refine(
  (name) => !isReserved(name),
  { error: (issue) => mustBe('a parameter name that is not reserved', issue.input) },
);
const constantName = cIdentifier.refine((name) => !isReserved(name), {
  error: (issue) => mustBe('a constant name that is not reserved', issue.input),
});

/** Whether a constant with this name may be passed to the compiler. It must be in capitals, like a parameter. */
export const isMacroName = (name: string): boolean => MACRO_NAME.test(name);
const sourceFile = matching(
  /^(?!.*(^|\/)\.)[\w./-]{1,128}\.(cu|cuh|ptx|cubin|py)$/,
  "a .cu, .cuh, .ptx, .cubin or .py file of the kernel's folder, named with a to z, A to Z, 0 to 9, _ . - and /",
);
/** Whether a kernel's source is PTX from another compiler, which no parameter can change. */
export const isPtxSource = (source: string): boolean => source.endsWith('.ptx');
/** Whether a kernel's source is machine code, which runs only on a GPU. */
export const isCubinSource = (source: string): boolean => source.endsWith('.cubin');
/** Whether a kernel's source is Python, which Triton compiles on the runner's host. */
export const isTritonSource = (source: string): boolean => source.endsWith('.py');
const archName = matching(/^sm_\d{2,3}[af]?$/, 'an architecture such as sm_80');

/** An expression's text, or a number. */
const expression = z
  .union([z.string(), z.number()], { error: (issue) => mustBe('an expression or a number', issue.input) })
  .transform(String);
const bytesOfWorkspace = z
  .union([z.string(), z.number()], {
    error: (issue) => mustBe('bytes, or { dtype: fp32, shape: [B, H, S], initial: 0 }', issue.input),
  })
  .transform(String);
const threeExpressions = z.tuple([expression, expression, expression], {
  error: (issue) => mustBe('three expressions [x, y, z]', issue.input),
});

const plainArguments = [
  cIdentifier,
  z.null(),
  z.strictObject({ bool: expression }),
  z.strictObject({ int8: expression }),
  z.strictObject({ int16: expression }),
  z.strictObject({ int32: expression }),
  z.strictObject({ int64: expression }),
  z.strictObject({ float32: expression }),
  z.strictObject({ float64: expression }),
  z.strictObject({
    tensor_map: z.strictObject({
      tensor: cIdentifier,
      box: z.array(expression).min(2).max(3),
      swizzle: z.enum(Object.keys(SWIZZLES) as Swizzle[]).default('none'),
    }),
  }),
] as const;
const PLAIN_ARGUMENTS =
  'a name, null, { int32: expression } (or bool, int8, int16, int64, float32, float64), { tensor_map: { tensor: K, box: [64, 64], swizzle: 128B } }';
const plainArgument = z.union(plainArguments, { error: (issue) => mustBe(PLAIN_ARGUMENTS, issue.input) });

/** CUDA's limit on the total size of a kernel's parameters. */
const MAX_PARAMETER_BYTES = 32_764;
const fieldName = matching(/^[A-Za-z_][\w.[\]]{0,127}$/, 'the name of a field, such as scale, q.stride or sizes[0]');
const structArgument = strict({
  struct: strict({
    bytes: integer(1, MAX_PARAMETER_BYTES),
    packed: flag().default(false),
    fields: mapOf(fieldName, strict({ at: integer(0, MAX_PARAMETER_BYTES - 1), value: plainArgument }), 512),
  }),
});

/**
 * Parses a value as the first form if `isFirst`, else as the second. Unlike in a union, faults keep their own paths.
 */
const eitherForm = <First, Second>(
  isFirst: (value: unknown) => boolean,
  first: z.ZodType<First>,
  second: z.ZodType<Second>,
) =>
  z.unknown().transform((value, context): First | Second => {
    const parsed = (isFirst(value) ? first : second).safeParse(value);
    if (parsed.success) return parsed.data;
    for (const { path, message } of parsed.error.issues) context.addIssue({ code: 'custom', path, message });
    return z.NEVER;
  });
const hasKey = (key: string) => (value: unknown) =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key);

/** A tensor that only some variants take. */
const tensorOfVariants = z.strictObject({ tensor: cIdentifier, when: expression });
/** An argument, or a struct of arguments. */
const argument = eitherForm(
  hasKey('struct'),
  structArgument,
  z.union([...plainArguments, tensorOfVariants], {
    error: (issue) =>
      mustBe(`${PLAIN_ARGUMENTS}, { tensor: LSE, when: expression } or { struct: { bytes, fields } }`, issue.input),
  }),
);

const persistedTensors = listOf(cIdentifier);
const persistedWhen = strict({ tensors: persistedTensors, when: expression });

/** A list of tensors, with or without a condition. */
const l2Persist = eitherForm(
  Array.isArray,
  persistedTensors.transform((tensors): { tensors: string[]; when?: string } => ({ tensors })),
  persistedWhen,
);

/** The fields that each launch of an `each` list has separately, then those that all launches share. */
const ownOfLaunch = { entry: entryName, when: expression.optional(), cluster: threeExpressions.optional() };
const sharedOfLaunches = {
  grid: threeExpressions,
  block: threeExpressions,
  shared_bytes: expression.default('0'),
  cooperative: flag().default(false),
  programmatic: flag().default(false),
  l2_persist: l2Persist.prefault([]),
  arguments: listOf(argument),
};
const MAX_LAUNCHES = 32;
const MAX_CONSTANTS = 128;

const oneLaunch = strict({ ...ownOfLaunch, ...sharedOfLaunches });
const launchesAlike = strict({
  each: listOf(strict({ ...ownOfLaunch, with: mapOf(cIdentifier, expression).default({}) }), MAX_LAUNCHES).min(
    1,
    'must have at least one launch',
  ),
  ...sharedOfLaunches,
});

/** A launch, or several that differ only in the values of a few names. */
const launch = eitherForm(hasKey('each'), launchesAlike, oneLaunch);

const parameter = strict({
  values: listOf(integer(-INT32.most, INT32.most), 256).min(1, 'must have at least one value'),
  default: integer(-INT32.most, INT32.most),
  of_device: oneOf(['multiprocessors']).optional(),
  about: text(),
}).refine(({ values, default: value }) => values.includes(value), {
  path: ['default'],
  error: 'must be one of `values`',
});

const shapeText = matching(/^\d{1,10}(x\d{1,10}){3}c?$/i, 'a shape such as 2x8x512x64').transform((value, context) => {
  try {
    return parseShape(value);
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
    return z.NEVER;
  }
});

/** A figure that a note claimed or projected. */
const expectation = strict({
  device: text(),
  shape: shapeText.prefault('2x8x512x64'),
  metric: oneOf(Object.keys(METRICS) as [string, ...string[]]).default('latency_us'),
  value: finite().optional(),
  range: z.tuple([finite(), finite()], { error: (issue) => mustBe('two numbers [low, high]', issue.input) }).optional(),
  unit: text().default('us'),
  kind: oneOf(['projected', 'claimed', 'measured']),
  source: text(),
  never_measured: flag().default(false),
  note: text().optional(),
}).superRefine(({ value, range, kind, never_measured: never }, context) => {
  const refuse = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
  if ((value === undefined) === (range === undefined)) refuse('value', 'must have exactly one of `value` and `range`');
  if (range && range[0] > range[1]) refuse('range', `must be [low, high], got [${range.join(', ')}]`);
  if (never && kind === 'measured') refuse('never_measured', 'a measured figure was measured');
});

const INFINITIES: Readonly<Record<string, number>> = { inf: Infinity, '-inf': -Infinity };

/** A number or an infinity, written as `-inf` or as YAML's `-.inf`. */
const initialValue = z
  .union([z.number(), z.literal(Infinity), z.literal(-Infinity), z.enum(['inf', '-inf'])], {
    error: (issue) => mustBe('a number, inf or -inf', issue.input),
  })
  .transform((value) => (typeof value === 'string' ? INFINITIES[value]! : value));

const elementsOfWorkspace = strict({
  dtype: oneOf(WORKSPACE_DTYPES),
  shape: listOf(expression, 8).min(1, 'must have at least one extent'),
  initial: initialValue.optional(),
}).superRefine(({ dtype, initial }, context) => {
  const problem = initial === undefined ? undefined : valueProblem(initial, dtype);
  if (problem) context.addIssue({ code: 'custom', path: ['initial'], message: problem });
});

/** A size in bytes, or elements. */
const workspace = eitherForm(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  elementsOfWorkspace,
  bytesOfWorkspace,
);

const storedDims = listOf(z.string(), 8);
/** The dimensions of a tensor in memory, outermost first, for all variants or only for some. */
const layout = eitherForm(
  Array.isArray,
  storedDims.transform((order): { order: string[]; when?: string } => ({ order })),
  strict({ order: storedDims, when: expression }),
);

const accumulateTypes = ['fp16', 'fp32'] as const;

const wantedInputs = ({ input }: { input?: unknown }): string =>
  mustBe(`${TENSOR_DTYPES.join(', ')} or { bf16_when: expression over the parameters; fp16 otherwise }`, input);
const inputsWhen = z
  .strictObject(
    Object.fromEntries(
      TENSOR_DTYPES.flatMap((dtype) => (dtype === 'fp16' ? [] : [[`${dtype}_when`, expression.optional()]])),
    ) as Record<`${Exclude<TensorDtype, 'fp16'>}_when`, z.ZodOptional<typeof expression>>,
    { error: wantedInputs },
  )
  .refine((written) => Object.values(written).some((when) => when !== undefined), { error: wantedInputs });

export const manifestSchema = strict({
  id: kernelId,
  title: text(),
  lesson: text(),
  problem: text().default(DEFAULT_PROBLEM),
  after: kernelId.optional(),
  source: sourceFile,
  language: oneOf(['triton']).optional(),
  min_arch: archName.optional(),
  arch: archName.optional(),
  emulated: z
    .union([z.boolean(), z.literal('ptx')], { error: (issue) => mustBe('true, false or ptx', issue.input) })
    .default(true),
  math: strict({
    inputs: z.union([z.enum(TENSOR_DTYPES), inputsWhen], { error: wantedInputs }),
    accumulate: z.union([z.enum(accumulateTypes), z.strictObject({ fp32_when: expression })], {
      error: (issue) =>
        mustBe('fp16, fp32 or { fp32_when: expression over the parameters; fp16 otherwise }', issue.input),
    }),
  }),
  limits: listOf(strict({ require: expression, because: text() })).default([]),
  parameters: mapOf(parameterName, parameter).default({}),
  configs: mapOf(z.string(), mapOf(z.string(), finite())).default({}),
  compile: strict({
    fast_math: flag().default(true),
    maxrregcount: integer(0, 255).default(0),
    flags: listOf(oneOf(COMPILER_FLAGS), COMPILER_FLAGS.length).default([]),
  }).prefault({}),
  layouts: mapOf(cIdentifier, layout).default({}),
  workspace: mapOf(cIdentifier, workspace).default({}),
  output: strict({ initial: initialValue }).optional(),
  constants: mapOf(constantName, expression, MAX_CONSTANTS).default({}),
  launches: listOf(launch, MAX_LAUNCHES)
    .min(1, 'must have at least one launch')
    .superRefine((written, context) => {
      const { length } = singleLaunches(written);
      if (length > MAX_LAUNCHES)
        context.addIssue({ code: 'custom', message: `must have at most ${MAX_LAUNCHES} launches, got ${length}` });
    }),
  // NONE: a correct kernel whose trick has no effect.
  faulty: strict({
    finding: oneOf(['NONE', ...FINDINGS]),
    finding_on_gpu: listOf(oneOf(['NONE', ...FINDINGS])).default([]),
    // A shape that shows the fault, for tests and measurements.
    shape: shapeText.prefault('1x4x128x64'),
    // The emulator's engine that detects the fault; the other engine finds something else, or nothing.
    engine: oneOf(['ptx']).optional(),
  }).optional(),
  notes: z.undefined({ error: 'belongs in NOTES.md, next to kernel.yaml' }).optional(),
  // Why there is no parameter USE_WMMA to turn off the tensor cores.
  toggle: text().optional(),
  // Why the kernel may be neither compared with nor accepted.
  deprecated: text().optional(),
  expect: listOf(expectation, 64).default([]),
  gates: listOf(ownGateSchema, 64).default([]),
}).superRefine((manifest, context) => {
  let faults = 0;
  const refuse = (path: (string | number)[], message: string) => {
    faults += 1;
    context.addIssue({ code: 'custom', path, message });
  };
  const { flags } = manifest.compile;
  for (const option of ['-std=', '-Xptxas=-O', '-Xptxas=-dlcm='])
    if (flags.filter((each) => each.startsWith(option)).length > 1)
      refuse(['compile', 'flags'], `must have at most one ${option}…`);
  if (isPtxSource(manifest.source) || isCubinSource(manifest.source)) refuseCompiled(manifest, refuse);
  if (isTritonSource(manifest.source) !== (manifest.language === 'triton'))
    refuse(['language'], 'must be triton for a source named *.py, and absent for every other source');
  if (isTritonSource(manifest.source)) refuseForTriton(manifest, refuse);
  if ((manifest.arch === undefined) === (manifest.min_arch === undefined))
    refuse(['min_arch'], 'must have exactly one of `min_arch` (the least) and `arch` (the only one)');
  for (const [index, { id }] of manifest.gates.entries())
    if (manifest.gates.some((gate, at) => at < index && gate.id === id && samePlace(gate, manifest.gates[index]!)))
      refuse(['gates', index, 'id'], `the id "${id}" is taken by a gate before`);
  for (const [config, values] of Object.entries(manifest.configs)) {
    for (const [name, value] of Object.entries(values)) {
      if (faults >= MAX_FAULTS) return;
      const known = entryOf(manifest.parameters, name);
      if (!known)
        refuse(
          ['configs', config, name],
          `unknown parameter "${name}"${didYouMean(name, Object.keys(manifest.parameters))}`,
        );
      else if (!known.values.includes(value))
        refuse(['configs', config, name], `must be one of ${known.values.join(', ')}, got ${value}`);
    }
  }
});

/** Refuses keys that need a compiler of the source language (PTX), or any compiler at all (a cubin). */
function refuseCompiled(
  { source, parameters, launches, compile }: Pick<RawManifest, 'source' | 'parameters' | 'launches' | 'compile'>,
  refuse: (path: (string | number)[], message: string) => void,
): void {
  const [kind, flags] = isCubinSource(source) ? ['.cubin', 'empty'] : ['.ptx', 'flags of ptxas alone'];
  if (Object.keys(parameters).length > 0) refuse(['parameters'], `must be empty: a ${kind} source is compiled already`);
  for (const flag of compile.flags.filter((each) => isCubinSource(source) || !each.startsWith('-Xptxas')))
    refuse(['compile', 'flags'], `must be ${flags}: a ${kind} source is compiled already, got ${flag}`);
  if (isCubinSource(source) && compile.maxrregcount > 0)
    refuse(['compile', 'maxrregcount'], 'must be 0: a .cubin source is compiled already');
  for (const { entry, key } of singleLaunches(launches))
    if (isSpelledEntry(entry))
      refuse([...key, 'entry'], `must be the entry's name in the ${kind} file, got a C++ spelling`);
}

function refuseForTriton(
  { launches, compile, parameters, constants }: Pick<RawManifest, 'launches' | 'compile' | 'parameters' | 'constants'>,
  refuse: (path: (string | number)[], message: string) => void,
): void {
  for (const flag of compile.flags.filter((each) => !each.startsWith('-Xptxas')))
    refuse(['compile', 'flags'], `must be flags of ptxas for a source that Triton compiles, got ${flag}`);
  const entries = new Map<string, string>();
  for (const { entry, key } of singleLaunches(launches)) {
    const parsed = tritonEntry(entry);
    const at = [...key, 'entry'];
    if (!parsed) {
      refuse(at, 'must be a function under @triton.jit, with or without constexprs of its own: attention[CAUSAL=1]');
      continue;
    }
    const known = Object.keys(parsed.values).find((name) => Object.hasOwn({ ...parameters, ...constants }, name));
    if (known !== undefined)
      refuse(at, `must not give ${known}, which is a parameter or a constant: expressions would have its other value`);
    const other = entries.get(parsed.symbol);
    if (other !== undefined && other !== entry)
      refuse(at, `must differ from ${other} in more than brackets, got ${entry}`);
    entries.set(parsed.symbol, entry);
  }
}

/** A function of a Triton kernel, with constexprs that only this entry has. */
export interface TritonEntry {
  function: string;
  values: Record<string, number>;
  /** The entry's name in the PTX. */
  symbol: string;
}

/** Reads an entry such as `_attn_fwd[STAGE=3]`; undefined if it is not of this form. */
export function tritonEntry(entry: string): TritonEntry | undefined {
  const [, name, list] = /^([A-Za-z_]\w{0,127})(?:\[([\w=, -]{1,1000})\])?$/.exec(entry) ?? [];
  if (name === undefined) return undefined;
  const given = list?.split(',').map((each) => /^ *([A-Za-z_]\w{0,63})=(-?\d{1,9}) *$/.exec(each)) ?? [];
  const values = given.flatMap((each) => (each ? [[each[1]!, Number(each[2])] as const] : []));
  if (values.length < given.length || new Set(values.map(([key]) => key)).size < values.length) return undefined;
  const suffix = values.map(([key, value]) => `__${key}_${String(value).replace('-', 'm')}`).join('');
  return { function: name, values: Object.fromEntries(values), symbol: `${name}${suffix}` };
}

export type RawManifest = z.output<typeof manifestSchema>;

/** One launch. `key` is its place in the file; `sharedKey` is the place of the part that it shares with others. */
export interface RawLaunch extends z.output<typeof oneLaunch> {
  key: (string | number)[];
  sharedKey: (string | number)[];
  /** Expressions by the names that replace them in the shared part. */
  with: Record<string, string>;
}

/** The launches of a manifest, with each `each` list expanded. */
export const singleLaunches = (launches: RawManifest['launches']): RawLaunch[] =>
  launches.flatMap((written, index) => {
    const sharedKey = ['launches', index];
    if (!('each' in written)) return [{ ...written, key: sharedKey, sharedKey, with: {} }];
    const { each, ...shared } = written;
    return each.map((own, at) => ({ ...shared, ...own, key: [...sharedKey, 'each', at], sharedKey }));
  });

const samePlace = (a: RawManifest['gates'][number], b: RawManifest['gates'][number]): boolean =>
  a.archs.join() === b.archs.join() && a.plans.join() === b.plans.join();
