/** A definition of FlashInfer-Bench: the computation of one of its problems, as JSON from a foreign author. */
import { MAX_EXTENT, PROBLEM_ID, yamlFile } from '@flashcore/shared/kernels';
import { didYouMean, entryOf } from '@flashcore/shared/text';
import * as z from 'zod';

const { integer, listOf, mapOf, matching, mustBe, oneOf, parseYamlFile, shown, text } = yamlFile;

/** `unknown` is the dtype of a table that FlashInfer's dumps know only as an argument of plan(). */
const DTYPES = [
  ...['float32', 'float16', 'bfloat16', 'float64', 'float8_e4m3fn', 'float8_e5m2', 'float4_e2m1', 'float4_e2m1fn_x2'],
  ...['int64', 'int32', 'int16', 'int8', 'uint8', 'bool', 'unknown'],
] as const;
const MOST_DIMENSIONS = 8;
const MOST_CONSTRAINTS = 32;

export const identifier = matching(
  /^(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}$/,
  'a Python identifier of at most 64 characters',
);

/** An expression over axes, as in SOL-ExecBench. Only a sandbox evaluates it. */
const expression = matching(/^[\w +\-*/%()]{1,200}$/, 'an expression over axes of at most 200 characters');
/** An axis by name, or an extent as a number, as in SOL-ExecBench. */
const dimension = matching(
  /^((?!__)[A-Za-z_][A-Za-z0-9_]{0,63}|[1-9]\d{0,8})$/,
  'the name of an axis of at most 64 characters',
);

const axis = z
  .object(
    {
      type: oneOf(['const', 'var', 'expr']),
      value: integer(1, MAX_EXTENT).optional(),
      expression: expression.optional(),
    },
    { error: (issue) => mustBe('{ "type": "const", "value": … } or { "type": "var" }', issue.input) },
  )
  .refine(({ type, value }) => (type === 'const') === (value !== undefined), {
    error: 'must have a `value` with `"type": "const"`, and none with other types',
  });

const tensor = z.object(
  {
    shape: listOf(dimension, MOST_DIMENSIONS).nullable(),
    dtype: oneOf(DTYPES),
    optional: z.boolean().nullish(),
  },
  { error: (issue) => mustBe('{ "shape": [axes] or null, "dtype": … }', issue.input) },
);

const definitionSchema = z
  .object(
    {
      name: text().max(128, 'must have at most 128 characters'),
      op_type: text().max(64, 'must have at most 64 characters').nullish(),
      axes: mapOf(identifier, axis),
      inputs: mapOf(identifier, tensor),
      outputs: mapOf(identifier, tensor),
      constraints: listOf(text(), MOST_CONSTRAINTS).nullish(),
      reference: text(),
      custom_inputs_entrypoint: text().nullish(),
    },
    { error: (issue) => mustBe('a definition of FlashInfer-Bench: a JSON object', issue.input) },
  )
  .superRefine(({ axes, inputs, outputs }, context) => {
    const refuse = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
    const known = Object.keys(axes);
    for (const [group, tensors] of Object.entries({ inputs, outputs }))
      for (const [name, { shape }] of Object.entries(tensors))
        for (const [index, dimension] of (shape ?? []).entries())
          if (!known.includes(dimension) && !/^\d/.test(dimension))
            refuse(
              [group, name, 'shape', index],
              `unknown axis "${shown(dimension)}"${didYouMean(dimension, known)}: add it to \`axes\``,
            );
    for (const name of Object.keys(outputs))
      if (entryOf(inputs, name)) refuse(['outputs', name], 'the name is taken by an input: choose another');
  });

/** A tensor's axes, outermost first; null for a number. */
export type DefinedTensor = z.output<typeof tensor>;

export interface Definition {
  readonly file: string;
  readonly name: string;
  /** Problem id made from the name. */
  readonly id: string;
  /** Empty in SOL-ExecBench, which has no op_type. */
  readonly opType: string;
  /** Extents by axis; undefined if the workload gives the extent. */
  readonly axes: Readonly<Record<string, number | undefined>>;
  /** Axes computed from other axes, with their expressions; only in SOL-ExecBench. */
  readonly expressions: Readonly<Record<string, string>>;
  /** Computed axes, and inputs made by a program; only in SOL-ExecBench. */
  readonly computed: readonly string[];
  readonly inputs: Readonly<Record<string, DefinedTensor>>;
  readonly outputs: Readonly<Record<string, DefinedTensor>>;
  readonly constraints: readonly string[];
  /** Python code. It is compared with known references but never run. */
  readonly reference: string;
}

/**
 * Reads a definition; `file` is the name in messages. JSON is valid YAML, and the YAML reader here limits the size,
 * refuses duplicate keys, and gives the line. Errors: INVALID_MANIFEST with path and key.
 */
export function parseDefinition(jsonText: string, file: string): Definition {
  const read = parseYamlFile(jsonText, file, definitionSchema);
  const { value } = read;
  const id = idOf(value.name);
  if (id === undefined)
    throw read.refuse([
      { key: ['name'], message: `must be a name of which ${PROBLEM_ID.inWords} remain: choose another` },
    ]);
  const axes = Object.entries(value.axes);
  return {
    file,
    name: value.name,
    id,
    opType: value.op_type ?? '',
    axes: Object.fromEntries(axes.map(([name, { value: extent }]) => [name, extent])),
    expressions: Object.fromEntries(
      axes.flatMap(([name, { type, expression: given }]) => (type === 'expr' ? [[name, given ?? ''] as const] : [])),
    ),
    computed: [
      ...axes.flatMap(([name, { type }]) => (type === 'expr' ? [`axes.${name}`] : [])),
      ...(value.custom_inputs_entrypoint ? ['custom_inputs_entrypoint'] : []),
    ],
    inputs: value.inputs,
    outputs: value.outputs,
    constraints: value.constraints ?? [],
    reference: value.reference,
  };
}

/**
 * The problem id made from a definition's name. It keeps only allowed characters, because it becomes a folder's name.
 */
export function idOf(name: string): string | undefined {
  const id = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replace(/^[^a-z]+/, '')
    .slice(0, 64)
    .replace(/_+$/, '');
  return PROBLEM_ID.pattern.test(id) ? id : undefined;
}

const workloadSchema = z.object(
  {
    axes: mapOf(identifier, integer(0, MAX_EXTENT)),
    inputs: mapOf(
      identifier,
      z.object(
        { type: oneOf(['random', 'scalar', 'safetensors', 'custom']), value: z.unknown().optional() },
        { error: (issue) => mustBe('{ "type": … }', issue.input) },
      ),
    ),
  },
  { error: (issue) => mustBe('{ "axes": …, "inputs": … }', issue.input) },
);
const traceSchema = z.object(
  { definition: text().max(128, 'must have at most 128 characters'), workload: workloadSchema },
  { error: (issue) => mustBe('a trace of FlashInfer-Bench: a JSON object', issue.input) },
);

/** A workload's axes and its scalar inputs. */
export interface Workload {
  readonly definition: string;
  readonly axes: Readonly<Record<string, number>>;
  readonly scalars: Readonly<Record<string, number>>;
}

/** Limit on workloads. The data set has at most 48 for a definition. */
const MOST_WORKLOADS = 1024;

/** Reads workloads, one JSON object per line. Errors: INVALID_MANIFEST with file, line and key. */
export const parseWorkloads = (jsonl: string, file: string): Workload[] =>
  linesOf(jsonl, file, traceSchema).map(({ definition, workload }) => ({ definition, ...valuesOf(workload) }));

/** Reads workloads of SOL-ExecBench, which do not name their definition. Errors: those of parseWorkloads(). */
export const parseBareWorkloads = (jsonl: string, file: string): Omit<Workload, 'definition'>[] =>
  linesOf(jsonl, file, workloadSchema).map(valuesOf);

function linesOf<Schema extends z.ZodType>(jsonl: string, file: string, schema: Schema): z.output<Schema>[] {
  const lines = jsonl.split('\n', MOST_WORKLOADS + 1).slice(0, MOST_WORKLOADS);
  return lines.flatMap((line, index) =>
    line.trim() === '' ? [] : [parseYamlFile(line, `${file}, line ${index + 1}`, schema).value],
  );
}

function valuesOf({ axes, inputs }: z.output<typeof workloadSchema>): Omit<Workload, 'definition'> {
  const scalars = Object.entries(inputs).flatMap(([name, { type, value }]) =>
    type === 'scalar' && typeof value === 'number' && Number.isFinite(value) ? [[name, value] as const] : [],
  );
  return { axes, scalars: Object.fromEntries(scalars) };
}
