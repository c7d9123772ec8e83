/** The forms of attention in FlashInfer-Bench's definitions, as tensors of the built-in operation. */
import { sha256Of } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { Definition, DefinedTensor } from './definition.ts';
import { KNOWN_REFERENCES } from './known-references.ts';

/** Storage of the queries and keys of several sequences. */
export type Queries = 'one each' | 'packed';
export type Keys = 'paged' | 'packed';

/** A definition that describes attention. */
export interface Form {
  readonly definition: Definition;
  readonly queries: Queries;
  readonly keys: Keys;
  readonly dtype: 'fp16' | 'bf16' | 'fp32';
  /** Names of the definition's axes. */
  readonly axes: {
    readonly heads: string;
    /** Undefined if all heads share one key head: the tensors then have no dimension for it. */
    readonly keyHeads: string | undefined;
    readonly width: string;
    readonly valueWidth: string;
    /** Columns of `moreQ` and `moreK`. */
    readonly moreWidth: string | undefined;
    readonly page: string | undefined;
  };
  readonly tensors: {
    readonly q: string;
    readonly k: string;
    readonly v: string;
    readonly moreQ: string | undefined;
    readonly moreK: string | undefined;
    readonly lastPages: string | undefined;
  };
  /** True if every sequence is assumed to fill its last page, because no input says where it ends. */
  readonly wholePages: boolean;
  /** Optional inputs that the problem leaves out. */
  readonly absent: readonly string[];
  /** The scale is 1 / sqrt(scaledBy) unless a workload gives another. */
  readonly scaledBy: number;
}

/** Thrown with the reason why a definition cannot be imported. */
export class NotImportable extends Error {
  override readonly name = 'NotImportable';
}

/** Dtypes by their names in definitions. */
export const DTYPES: Readonly<Record<string, Form['dtype']>> = { float16: 'fp16', bfloat16: 'bf16', float32: 'fp32' };
/** Conditions that the tables of every drawn case satisfy. */
const CONSTRAINTS = new Set([
  'total_q == qo_indptr[-1].item()',
  'total_kv == kv_indptr[-1].item()',
  'num_kv_indices == kv_indptr[-1].item()',
  'len_indptr == batch_size + 1',
]);
/** Columns of a DeepSeek head before the projection was absorbed, not counting the columns of the rotary embedding. */
const COLUMNS_BEFORE_ABSORPTION = 128;

interface Layout {
  readonly op: string;
  readonly queries: Queries;
  readonly keys: Keys;
  readonly inputs: Readonly<Record<string, readonly string[]>>;
  readonly axes: Omit<Form['axes'], 'heads' | 'page'>;
  readonly tensors: Omit<Form['tensors'], 'lastPages'>;
}

const HEADS = 'num_qo_heads';
const KEY_HEADS = 'num_kv_heads';
const PAGE = 'page_size';
const OFFSETS = { qo_indptr: ['len_indptr'], kv_indptr: ['len_indptr'] };
const PAGES = { kv_indptr: ['len_indptr'], kv_indices: ['num_kv_indices'] };
const NO_MORE = { moreQ: undefined, moreK: undefined };
const ONE_EACH = { queries: 'one each', keys: 'paged' } as const;
const PACKED = { queries: 'packed', keys: 'paged' } as const;

const gqaPaged = (rows: string) => ({
  op: 'gqa_paged',
  axes: { keyHeads: KEY_HEADS, width: 'head_dim', valueWidth: 'head_dim', moreWidth: undefined },
  tensors: { q: 'q', k: 'k_cache', v: 'v_cache', ...NO_MORE },
  inputs: {
    q: [rows, HEADS, 'head_dim'],
    k_cache: ['num_pages', PAGE, KEY_HEADS, 'head_dim'],
    v_cache: ['num_pages', PAGE, KEY_HEADS, 'head_dim'],
    ...PAGES,
  },
});
const mlaPaged = (rows: string) => ({
  op: 'mla_paged',
  axes: { keyHeads: undefined, width: 'head_dim_ckv', valueWidth: 'head_dim_ckv', moreWidth: 'head_dim_kpe' },
  tensors: { q: 'q_nope', k: 'ckv_cache', v: 'ckv_cache', moreQ: 'q_pe', moreK: 'kpe_cache' },
  inputs: {
    q_nope: [rows, HEADS, 'head_dim_ckv'],
    q_pe: [rows, HEADS, 'head_dim_kpe'],
    ckv_cache: ['num_pages', PAGE, 'head_dim_ckv'],
    kpe_cache: ['num_pages', PAGE, 'head_dim_kpe'],
    ...PAGES,
  },
});
const ragged = (op: string, width: string, valueWidth: string): Layout => ({
  ...{ op, queries: 'packed', keys: 'packed' },
  axes: { keyHeads: KEY_HEADS, width, valueWidth, moreWidth: undefined },
  tensors: { q: 'q', k: 'k', v: 'v', ...NO_MORE },
  inputs: {
    q: ['total_q', HEADS, width],
    k: ['total_kv', KEY_HEADS, width],
    v: ['total_kv', KEY_HEADS, valueWidth],
    ...OFFSETS,
  },
});
const prefill = ({ inputs, ...layout }: ReturnType<typeof gqaPaged> | ReturnType<typeof mlaPaged>): Layout => ({
  ...layout,
  ...PACKED,
  inputs: { ...inputs, ...OFFSETS },
});

const LAYOUTS: readonly Layout[] = [
  { ...gqaPaged('batch_size'), ...ONE_EACH },
  prefill(gqaPaged('total_q')),
  ragged('gqa_ragged', 'head_dim', 'head_dim'),
  { ...mlaPaged('batch_size'), ...ONE_EACH },
  prefill(mlaPaged('total_q')),
  ragged('mla_ragged', 'qk_dim', 'vo_dim'),
];
const LAST_PAGES = 'kv_last_page_len';
const TABLES = ['qo_indptr', 'kv_indptr', 'kv_indices', LAST_PAGES];

export interface RecognizedBy {
  /**
   * True to accept a reference that nobody has compared with the operation, if the definition's name states its mask.
   */
  readonly anyReference: boolean;
}

/** The form of a definition. Errors: NotImportable with the reason and the remedy. */
export function recognize(definition: Definition, by: RecognizedBy): Form {
  const { opType, computed } = definition;
  if (computed.length > 0)
    throw new NotImportable(
      `${computed[0]}: only a program gives its value, as in SOL-ExecBench: give --from sol-execbench to run it in a sandbox`,
    );
  if (opType === '')
    throw new NotImportable('op_type: must be given, got none, as in SOL-ExecBench: give --from sol-execbench');
  const ofType = LAYOUTS.filter(({ op }) => op === opType);
  if (ofType.length === 0)
    throw new NotImportable(
      `op_type: "${opType}" is none of ${[...new Set(LAYOUTS.map(({ op }) => op))].join(', ')}: write the problem by hand, with a reference.cpp`,
    );
  const packed = entryOf(definition.inputs, 'qo_indptr') !== undefined;
  const layout = ofType.find(({ queries }) => (queries === 'packed') === packed) ?? ofType[0]!;
  requireLayout(definition, layout);
  const unknown = definition.constraints.find((constraint) => !CONSTRAINTS.has(constraint));
  if (unknown !== undefined)
    throw new NotImportable(`constraints: nothing here draws "${unknown}": known are ${[...CONSTRAINTS].join('; ')}`);
  requireReference(definition, `${layout.op} ${layout.queries}`, by);
  requireMask(definition, layout);
  return formOf(definition, layout);
}

function requireLayout({ inputs, outputs, axes }: Definition, layout: Layout): void {
  const { inputs: wanted, axes: named, queries, keys } = layout;
  const rows = queries === 'packed' ? 'total_q' : 'batch_size';
  const results = { output: [rows, HEADS, named.valueWidth], lse: [rows, HEADS] };
  const hasLastPages = keys === 'paged' && entryOf(inputs, LAST_PAGES) !== undefined;
  requireTensors('inputs', inputs, {
    ...wanted,
    ...(hasLastPages && { [LAST_PAGES]: [queries === 'packed' ? 'len_indptr' : 'batch_size'] }),
    sm_scale: null,
  });
  requireTensors('outputs', outputs, results);
  for (const name of new Set(Object.values({ ...wanted, ...results }).flat()))
    if (!VARIABLE.has(name) && entryOf(axes, name) === undefined)
      throw new NotImportable(`axes.${name}: must be a constant, got an axis of workloads: give it a value`);
    else if (VARIABLE.has(name) && entryOf(axes, name) !== undefined)
      throw new NotImportable(`axes.${name}: must be an axis of workloads, got a constant: make it "var"`);
}

const KNOWN_INPUTS = new Set([...LAYOUTS.flatMap(({ inputs }) => Object.keys(inputs)), LAST_PAGES, 'sm_scale']);
const VARIABLE = new Set([...['batch_size', 'total_q', 'total_kv', 'len_indptr', 'num_pages', 'num_kv_indices']]);

function requireTensors(
  group: string,
  found: Readonly<Record<string, DefinedTensor>>,
  wanted: Readonly<Record<string, readonly string[] | null>>,
): void {
  const more = Object.keys(found).find((name) => !Object.hasOwn(wanted, name) && !entryOf(found, name)!.optional);
  if (more !== undefined)
    throw new NotImportable(
      `${group}.${more}: no form of attention that is known here has it: known are ${Object.keys(wanted).join(', ')}`,
    );
  for (const [name, shape] of Object.entries(wanted)) {
    const tensor = entryOf(found, name);
    if (!tensor)
      throw new NotImportable(`${group}.${name}: must be there, with the shape [${shape?.join(', ') ?? ''}]`);
    if (shapeText(tensor.shape) !== shapeText(shape) && !isLastPages(name, tensor.shape))
      throw new NotImportable(
        `${group}.${name}.shape: must be ${shapeText(shape)}, got ${shapeText(tensor.shape)}: only this layout is known`,
      );
    const dtypes = dtypesOf(name);
    if (!dtypes.includes(tensor.dtype))
      throw new NotImportable(`${group}.${name}.dtype: must be ${dtypes.join(' or ')}, got ${tensor.dtype}`);
  }
  const floats = Object.entries(found).filter(([name]) => Object.hasOwn(wanted, name) && dtypesOf(name) === FLOATS);
  const other = floats.find(([, { dtype }]) => dtype !== floats[0]![1].dtype);
  if (other)
    throw new NotImportable(
      `${group}.${other[0]}.dtype: must be ${floats[0]![1].dtype}, as ${floats[0]![0]} has, got ${other[1].dtype}: mixed formats are not known here`,
    );
}

/** True for kv_last_page_len, which has one element per sequence. In prefill, definitions give it one of two axes. */
const isLastPages = (name: string, shape: readonly string[] | null): boolean =>
  name === LAST_PAGES && ['batch_size', 'len_indptr'].includes(shape?.join() ?? '');
const shapeText = (shape: readonly string[] | null): string => (shape ? `[${shape.join(', ')}]` : 'null');
const FLOATS = Object.keys(DTYPES);
const INT32 = ['int32', 'unknown'];
const FLOAT32 = ['float32'];
function dtypesOf(name: string): readonly string[] {
  if (TABLES.includes(name)) return INT32;
  return name === 'lse' || name === 'sm_scale' ? FLOAT32 : FLOATS;
}

/** Requires that the mask of packed queries is known, either from a known reference or from the definition's name. */
function requireMask(definition: Definition, { op, queries }: Layout): void {
  if (queries === 'one each' || definition.name.includes('causal')) return;
  if (entryOf(KNOWN_REFERENCES, `${op} ${queries}`)?.has(referenceDigest(definition))) return;
  throw new NotImportable(
    'reference: it is not known, and the name does not say "causal", the only mask of packed queries here: write the problem by hand',
  );
}

/**
 * Requires that somebody has compared the reference with the operation, unless `anyReference` is set. Errors:
 * NotImportable.
 */
export function requireReference(definition: Definition, form: string, { anyReference }: RecognizedBy): void {
  const digest = referenceDigest(definition);
  if (entryOf(KNOWN_REFERENCES, form)?.has(digest) || anyReference) return;
  throw new NotImportable(
    `reference: nobody has compared this text with the built-in operation (SHA-256 of its normal form ${digest.slice(0, 12)}…): read it, then give --any-reference`,
  );
}

/**
 * The digest of a reference without comments, empty lines and assertions of constants. References with the same digest
 * compute the same, because Python ignores comments and empty lines, and an assertion can only end the program.
 */
export function referenceDigest({ reference, axes }: Pick<Definition, 'reference' | 'axes'>): string {
  const lines = reference.split(/\r\n|\r|\n/).flatMap((line) => {
    const code = /['"]/.test(line) ? line.trimEnd() : line.split('#', 1)[0]!.trimEnd();
    const [, axis, value] = /^ *assert ([A-Za-z_]\w{0,63}) == (\d{1,10})$/.exec(code) ?? [];
    const holds = axis !== undefined && entryOf(axes, axis) === Number(value);
    return code === '' || holds ? [] : [code];
  });
  return sha256Of(lines.join('\n'));
}

function formOf(definition: Definition, { queries, keys, tensors, axes }: Layout): Form {
  const extent = (axis: string): number => entryOf(definition.axes, axis)!;
  return {
    ...{ definition, queries, keys, dtype: entryOf(DTYPES, entryOf(definition.inputs, tensors.q)!.dtype)! },
    axes: { heads: HEADS, ...axes, page: keys === 'paged' ? PAGE : undefined },
    tensors: { ...tensors, lastPages: entryOf(definition.inputs, LAST_PAGES) && LAST_PAGES },
    wholePages: keys === 'paged' && extent(PAGE) > 1 && entryOf(definition.inputs, LAST_PAGES) === undefined,
    absent: Object.keys(definition.inputs).filter((name) => !KNOWN_INPUTS.has(name)),
    scaledBy: axes.moreWidth === undefined ? extent(axes.width) : COLUMNS_BEFORE_ABSORPTION + extent(axes.moreWidth),
  };
}
