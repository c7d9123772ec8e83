/** The schema of problem.yaml, before its expressions are parsed. */
import * as z from 'zod';
import { ELEMENT_DTYPES, TENSOR_DTYPES, type TensorDtype } from '../data/dtype.ts';
import { finite, flag, integer, listOf, mapOf, matching, oneOf, strict, text, mustBe } from '../data/yaml-file.ts';

/** The form of an id, as a pattern and in words. */
export const PROBLEM_ID = {
  pattern: /^[a-z][a-z0-9_]{0,63}$/,
  inWords: 'lower-case letters, digits and "_", at most 64',
} as const;

const name = matching(/^(?!__)[A-Za-z_][A-Za-z0-9_]{0,31}$/, 'a C identifier of at most 32 characters');
const expression = z
  .union([z.string(), finite()], { error: (issue) => mustBe('an expression or a number', issue.input) })
  .transform(String);
const recordOf = <Name extends string, Schema extends z.ZodType>(names: readonly Name[], schema: Schema) =>
  Object.fromEntries(names.map((each) => [each, schema])) as Record<Name, Schema>;
const dims = listOf(expression, 8).min(1, 'must have at least one dimension');

/** The dtypes that a tensor has instead of the kernel's dtype, by the kernel's dtype. */
export type OtherDtypes = Readonly<Partial<Record<TensorDtype, TensorDtype | undefined>>>;

const NO_OTHERS: OtherDtypes = {};

const wantedDtype = ({ input }: { input?: unknown }): string =>
  mustBe(
    `same_as(a tensor) or a list of ${TENSOR_DTYPES.join(', ')}, of which a kernel chooses; { same_as: a tensor, e4m3: bf16 } where it is another for some; or one of ${ELEMENT_DTYPES.join(', ')}, for every kernel`,
    input,
  );
const dtype = z.union(
  [
    z.array(z.enum(TENSOR_DTYPES)).min(1),
    z
      .string()
      .regex(/^same_as\(\w+\)$/)
      .transform((written) => ({ sameAs: written.slice('same_as('.length, -1), others: NO_OTHERS })),
    z
      .strictObject(
        { same_as: name.optional(), ...recordOf(TENSOR_DTYPES, z.enum(TENSOR_DTYPES).optional()) },
        { error: wantedDtype },
      )
      .refine((written) => written.same_as !== undefined, { error: wantedDtype })
      .transform(({ same_as: sameAs = '', ...others }) => ({ sameAs, others })),
    z.enum(ELEMENT_DTYPES).transform((own) => ({ own })),
  ],
  { error: wantedDtype },
);

/**
 * How a tensor is drawn. For q, k and v, a distribution has a rule of that name. In every distribution, sink and bias
 * are logits and slope holds ALiBi slopes.
 */
const TENSOR_ROLES = ['q', 'k', 'v', 'gradient', 'sink', 'slope', 'bias'] as const;
export type TensorRole = (typeof TENSOR_ROLES)[number];

/** How an int32 input is drawn; distributions do not apply to it. */
const DRAW_RULES = ['lengths', 'offsets', 'pages', 'page_offsets', 'last_pages', 'selected'] as const;
const draw = strict({
  lengths: strict({
    most: expression.optional(),
    sum: expression.optional(),
    page: expression.optional(),
    multiple_of: expression.optional(),
  })
    .refine((written) => (written.most === undefined) !== (written.sum === undefined), {
      error: 'must have exactly one of `most` and `sum`',
    })
    .refine((written) => written.multiple_of === undefined || written.most !== undefined, {
      error: '`multiple_of` goes with `most`: leave it out',
      path: ['multiple_of'],
    })
    .optional(),
  offsets: name.optional(),
  pages: strict({ lengths: name, page: expression, pool: expression }).optional(),
  page_offsets: strict({ lengths: name, page: expression }).optional(),
  last_pages: strict({ lengths: name, page: expression }).optional(),
  selected: strict({ keys: expression, lengths: name.optional(), queries: expression.optional() }).optional(),
}).refine((written) => DRAW_RULES.filter((rule) => written[rule] !== undefined).length === 1, {
  error: `must have exactly one of ${DRAW_RULES.map((rule) => `\`${rule}\``).join(', ')}`,
});
export type RawDraw = z.output<typeof draw>;

const tensor = strict({
  in: dims.optional(),
  out: dims.optional(),
  dtype,
  role: oneOf(TENSOR_ROLES).default('v'),
  optional: flag().default(false),
  when: expression.optional(),
  tolerance: name.optional(),
  rounds: integer(1, 16).optional(),
  draw: draw.optional(),
  rows: name.optional(),
}).refine((written) => (written.in === undefined) !== (written.out === undefined), {
  error: 'must have exactly one of `in` and `out`',
});

/** `own` is the reference.cpp or reference.py next to problem.yaml; the others are the built-in oracle's operations. */
const OPERATIONS = ['attention', 'attention_backward', 'merge', 'own'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** The longest limit that a problem can give its own reference, in seconds; the device waits meanwhile. */
const MOST_REFERENCE_S = 300;

/** Tensors of the built-in operations, with the names of kernels/reference/attention_reference.h. */
export const OPERANDS = [
  'q',
  'k',
  'v',
  'o',
  'lse',
  'sinks',
  'alibi_slopes',
  'bias',
  'd_o',
  'd_q',
  'd_k',
  'd_v',
  'd_sinks',
  'o_parts',
  'lse_parts',
  'selected',
] as const;
export type OperandName = (typeof OPERANDS)[number];
/** int32 arrays of the built-in operations. */
export const TABLES = ['key_lengths', 'query_offsets', 'key_offsets', 'page_table', 'page_offsets'] as const;
export type TableName = (typeof TABLES)[number];

/**
 * A dimension of an operand: batch (or page), head, row (s), column (d), key of a bias or place in a list of keys (k),
 * part of the keys (p).
 */
export type OperandAxis = 'b' | 'h' | 's' | 'd' | 'k' | 'p';
const OPERAND = /^([A-Za-z_]\w{0,31})(?: \| ([A-Za-z_]\w{0,31}))?\[([bhsdkp](?: [bhsdkp]){0,4})\]$/;
const operand = z
  .string({ error: (issue) => mustBe('a tensor with its dimensions, such as Q[b h s d]', issue.input) })
  .regex(OPERAND, { error: (issue) => mustBe('a tensor with its dimensions, such as Q[b h s d]', issue.input) })
  .transform((written) => {
    const [, ofTensor, more, axes] = OPERAND.exec(written)!;
    return { tensor: ofTensor!, ...(more && { more }), axes: axes!.split(' ') as OperandAxis[] };
  })
  .refine(({ axes }) => new Set(axes).size === axes.length, {
    error: 'must have each of b, h, s, d, k and p at most once',
  });
const byName = <Name extends string, Schema extends z.ZodType>(names: readonly Name[], schema: Schema) =>
  recordOf(names, schema.optional());

/** The effect of a symmetry along an axis: indices are permuted, signs are flipped, or values are doubled. */
export const SYMMETRY_ACTS = ['permute', 'flip', 'double'] as const;
export type SymmetryAct = (typeof SYMMETRY_ACTS)[number];
const MOST_SYMMETRIES = 16;

const symmetry = strict({
  permute: name.optional(),
  flip: name.optional(),
  double: name.optional(),
  of: listOf(name, 16).optional(),
  when: expression.optional(),
}).refine((written) => SYMMETRY_ACTS.filter((act) => written[act] !== undefined).length === 1, {
  error: `must have exactly one of ${SYMMETRY_ACTS.map((act) => `\`${act}\``).join(', ')}`,
});

/** Changes that a mutant can make to a tensor. */
export const MUTANT_ACTS = [
  'round',
  'flush',
  'clamp',
  'times',
  'constant',
  'entries',
  'shift',
  'last',
  'ignored',
  'unwritten',
] as const;
/** Acts that are allowed on int32 inputs; `entries` is allowed on no other tensor. */
export const TABLE_ACTS: readonly (typeof MUTANT_ACTS)[number][] = ['entries', 'shift', 'last', 'ignored'];
/** The name of the table's element in `entries`. */
export const ENTRY = 'entry';
/** Number formats that a mutant rounds to. */
export const ROUNDED_FORMATS = ['fp16', 'bf16', 'e4m3', 'e5m2'] as const;
/** The part at the end of an output that a mutant leaves unwritten. */
export const UNWRITTEN_PARTS = ['element', 'row'] as const;
const MOST_MUTANTS = 32;

const mutant = strict({
  set: mapOf(name, expression).optional(),
  tensor: name.optional(),
  round: oneOf(ROUNDED_FORMATS).optional(),
  flush: oneOf(['subnormals']).optional(),
  clamp: finite().optional(),
  times: expression.optional(),
  constant: finite().optional(),
  entries: expression.optional(),
  shift: expression.optional(),
  last: expression.optional(),
  ignored: z.literal(true, { error: (issue) => mustBe('true', issue.input) }).optional(),
  unwritten: oneOf(UNWRITTEN_PARTS).optional(),
  about: text(),
}).superRefine((written, context) => {
  const acts = MUTANT_ACTS.filter((act) => written[act] !== undefined);
  const refuse = (message: string) => context.addIssue({ code: 'custom', message });
  if ((written.set === undefined) === (written.tensor === undefined))
    refuse('must have exactly one of `set` and `tensor`');
  else if (written.tensor === undefined ? acts.length > 0 : acts.length !== 1)
    refuse(
      `must have exactly one of ${MUTANT_ACTS.map((act) => `\`${act}\``).join(', ')} with \`tensor\`, none with \`set\``,
    );
  else if (written.set && Object.keys(written.set).length === 0) refuse('`set` must name an axis or attribute');
});
export type RawMutant = z.output<typeof mutant>;

/**
 * How ranked runs draw an axis. Along `count` the work is independent. `length` may end inside a tile. `width` is the
 * size of a row, of which kernels support few values. `divisor` divides its default.
 */
const AXIS_DRAWS = ['count', 'length', 'width', 'divisor'] as const;
export type AxisDraw = (typeof AXIS_DRAWS)[number];

const axis = strict({
  default: expression.optional(),
  draw: oneOf(AXIS_DRAWS).default('length'),
  independent: flag().default(false),
  about: text(),
}).refine((written) => written.draw !== 'divisor' || written.default !== undefined, {
  error: '`draw: divisor` divides the default: give one',
  path: ['draw'],
});
const MOST_DRAWN_VALUES = 8;
const attribute = strict({
  value: expression.optional(),
  default: finite().default(0),
  draw: listOf(expression, MOST_DRAWN_VALUES).default([]),
  about: text(),
}).refine((written) => written.value === undefined || written.draw.length === 0, {
  error: 'the attribute has a `value`: leave out `draw`',
  path: ['draw'],
});

/** The baselines that the runner can time along with a kernel: PyTorch's scaled_dot_product_attention. */
const BASELINES = ['sdpa'] as const;
export type Baseline = (typeof BASELINES)[number];

export const problemSchema = strict({
  id: matching(PROBLEM_ID.pattern, PROBLEM_ID.inWords),
  title: text(),
  axes: mapOf(name, axis),
  attributes: mapOf(name, attribute).default({}),
  require: listOf(strict({ require: expression, because: text() })).default([]),
  tensors: mapOf(name, tensor),
  symmetries: listOf(symmetry, MOST_SYMMETRIES).default([]),
  mutants: mapOf(name, mutant)
    .refine((written) => Object.keys(written).length <= MOST_MUTANTS, { error: `must have at most ${MOST_MUTANTS}` })
    .default({}),
  reference: strict({
    op: oneOf(OPERATIONS),
    ...byName(OPERANDS, operand),
    ...byName(TABLES, name),
    lse_base: z.literal(2, { error: (issue) => mustBe('2, or no key for base e', issue.input) }).optional(),
    limit_s: integer(1, MOST_REFERENCE_S).optional(),
  }),
  work: strict({ flops: expression, bytes: expression.optional() }),
  baselines: listOf(oneOf(BASELINES), BASELINES.length).default([]),
});

export type RawProblem = z.output<typeof problemSchema>;
