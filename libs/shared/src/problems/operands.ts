/** The tensors that the built-in oracle's operations read and write. */
import {
  OPERANDS,
  type Operation,
  type OperandAxis,
  type OperandName,
  type RawProblem,
  TABLES,
  type TableName,
} from './problem-schema.ts';
import { TENSOR_DTYPES, type ElementDtype } from '../data/dtype.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { entryOf } from '../text/entry-of.ts';

/** A tensor with the meaning of its dimensions. */
export interface Operand {
  readonly tensor: string;
  /** A tensor whose columns are appended to those of the first, for example the rotary columns of MLA. */
  readonly more?: string;
  /** Outermost first. */
  readonly axes: readonly OperandAxis[];
}

export interface Operands {
  readonly operands: Readonly<Partial<Record<OperandName, Operand>>>;
  /** Names of tensors. */
  readonly tables: Readonly<Partial<Record<TableName, string>>>;
  /** LSE is a base-2 logarithm, as in FlashInfer; absent: natural logarithm. */
  readonly lseBase2?: true;
}

interface OperationTensors {
  needs: readonly OperandName[];
  /** Inputs that a problem may leave out, or have only in some cases. */
  takes: readonly OperandName[];
  /** Tensors that are outputs if the problem has them. */
  writes: readonly OperandName[];
  /** Tensors that may be inputs; the oracle computes them from the others. */
  derives: readonly OperandName[];
}

const TENSORS: Readonly<Record<Exclude<Operation, 'own'>, OperationTensors>> = {
  attention: {
    needs: ['q', 'k', 'v', 'o'],
    takes: ['sinks', 'alibi_slopes', 'bias', 'selected'],
    writes: ['o', 'lse'],
    derives: [],
  },
  attention_backward: {
    needs: ['q', 'k', 'v', 'd_o'],
    takes: ['sinks', 'alibi_slopes', 'bias'],
    writes: ['d_q', 'd_k', 'd_v', 'd_sinks'],
    derives: ['o', 'lse'],
  },
  merge: { needs: ['o_parts', 'lse_parts', 'o'], takes: [], writes: ['o', 'lse'], derives: [] },
};

const EXAMPLE_AXES: Readonly<Partial<Record<OperandName, string>>> = { o_parts: 'p b h s d', lse_parts: 'p b h s' };

/** How each table is drawn. */
const RULES = {
  key_lengths: 'lengths',
  query_offsets: 'offsets',
  key_offsets: 'offsets',
  page_table: 'pages',
  page_offsets: 'page_offsets',
} as const satisfies Record<TableName, string>;

const FLOATING: readonly ElementDtype[] = ['fp16', 'bf16', 'fp32'];
const WITH_FP8: readonly ElementDtype[] = [...FLOATING, 'e4m3', 'e5m2'];

/**
 * Dtypes in which the oracle reads an operand, and inputs can be drawn; absent: all of TENSOR_DTYPES. Only the first
 * three have an infinity that conversions keep, which hides keys and marks empty parts, and int8 has no NaN.
 */
const READ_AS: Readonly<Partial<Record<OperandName, readonly ElementDtype[]>>> = {
  sinks: ['fp32'],
  alibi_slopes: ['fp32'],
  bias: FLOATING,
  lse_parts: FLOATING,
  o_parts: WITH_FP8,
  d_o: WITH_FP8,
  selected: ['int32'],
};
/** The dtypes of an O that a backward pass reads. */
const READ_O = WITH_FP8;

type RawTensors = RawProblem['tensors'];

/** The dtypes that a tensor has for the kernels of a problem. A `same_as` that leads nowhere gives none. */
export function dtypesOf(tensors: RawTensors, name: string): readonly ElementDtype[] {
  const lists = Object.values(tensors).flatMap(({ dtype }) => (Array.isArray(dtype) ? dtype : []));
  const ofKernels = lists.length > 0 ? TENSOR_DTYPES.filter((dtype) => lists.includes(dtype)) : TENSOR_DTYPES;
  const forKernel = (of: (typeof TENSOR_DTYPES)[number]): ElementDtype | undefined => {
    const seen = new Set<string>();
    for (let at = name; !seen.has(at);) {
      seen.add(at);
      const dtype = entryOf(tensors, at)?.dtype;
      if (dtype === undefined) return undefined;
      if (Array.isArray(dtype)) return of;
      if ('own' in dtype) return dtype.own;
      const other = dtype.others[of];
      if (other) return other;
      at = dtype.sameAs;
    }
    return undefined;
  };
  return [...new Set(ofKernels.flatMap((dtype) => forKernel(dtype) ?? []))];
}

/** Why the oracle cannot read the operand's elements; undefined if it can, or writes them. */
function dtypeFault(name: OperandName, tensor: string, tensors: RawTensors): string | undefined {
  const isRead = entryOf(tensors, tensor)!.in !== undefined;
  if (!isRead) return undefined;
  const known = name === 'o' ? READ_O : (READ_AS[name] ?? TENSOR_DTYPES);
  const wrong = dtypesOf(tensors, tensor).find((dtype) => !known.includes(dtype));
  if (wrong === undefined) return undefined;
  const [first] = known;
  return known.length === 1
    ? `${name} is read as ${first}: write \`dtype: ${first}\``
    : `${name} is read as ${known.join(', ')}, and ${tensor} may be ${wrong}: give it a dtype of these`;
}

/** Why the oracle cannot read or write the operand in this layout; undefined if it can. */
function layoutFault(name: OperandName, axes: readonly OperandAxis[]): string | undefined {
  const isOfParts = name === 'o_parts' || name === 'lse_parts';
  if (axes.includes('p') !== isOfParts)
    return isOfParts ? `${name} has parts: name their dimension p` : `only o_parts and lse_parts have the dimension p`;
  switch (name) {
    case 'lse':
    case 'lse_parts':
      return axes.some((axis) => axis === 'd' || axis === 'k')
        ? `${name} has one number a row: leave d and k out`
        : undefined;
    case 'sinks':
    case 'alibi_slopes':
    case 'd_sinks':
      return axes.join() === 'h' ? undefined : `${name} has one number a head: write \`TENSOR[h]\``;
    case 'bias':
      if (axes.includes('d')) return 'bias has one number a key: leave d out';
      return axes.at(-1) === 'k' ? undefined : 'the last dimension must be k: the numbers of a row are adjacent';
    case 'selected':
      if (axes.includes('d')) return 'selected has one key a place: leave d out';
      return axes.at(-1) === 'k' ? undefined : 'the last dimension must be k: the keys of a list are adjacent';
    default:
      if (axes.includes('k')) return `only bias and selected have the dimension k: ${name} has b, h, s and d`;
      return axes.at(-1) === 'd' ? undefined : 'the last dimension must be d: its elements are adjacent';
  }
}

type Fault = (key: (string | number)[], message: string) => void;

/** The inputs that the operation computes from others, such as O of a backward pass. */
export const derivedInputs = (operation: Operation): readonly OperandName[] =>
  operation === 'own' ? [] : TENSORS[operation].derives;

/** Refuses tensors that do not exist, lack dimensions, or are read where the operation writes. */
export function readOperands(
  { reference, tensors }: Pick<RawProblem, 'reference' | 'tensors'>,
  fault: Fault,
): Operands {
  const { op } = reference;
  const operands = Object.fromEntries(OPERANDS.flatMap((name) => (reference[name] ? [[name, reference[name]]] : [])));
  const tables = Object.fromEntries(TABLES.flatMap((name) => (reference[name] ? [[name, reference[name]]] : [])));
  const base2 = reference.lse_base !== undefined;
  if (base2 && op !== 'merge' && (op !== 'attention' || !operands.lse))
    fault(['reference', 'lse_base'], 'it is the base of lse, an output of attention: name that, or leave it out');
  const read: Operands = { operands, tables, ...(base2 && { lseBase2: true }) };
  if (reference.limit_s !== undefined && op !== 'own')
    fault(['reference', 'limit_s'], 'it is the limit of a reference of its own: leave it out');
  const named = [...Object.keys(operands), ...Object.keys(tables)];
  if (op === 'own') {
    for (const name of named) fault(['reference', name], 'a reference of its own reads tensors by name: leave it out');
    return read;
  }
  const { needs, takes, writes, derives } = TENSORS[op];
  const all = [...new Set([...needs, ...takes, ...writes, ...derives])];
  const known = Object.keys(tensors);
  for (const name of needs)
    if (!read.operands[name])
      fault(['reference'], `${op} needs ${name}: add \`${name}: TENSOR[${EXAMPLE_AXES[name] ?? 'b h s d'}]\``);
  for (const [name, operand] of Object.entries(read.operands) as [OperandName, Operand][]) {
    const { tensor, axes } = operand;
    const key = ['reference', name];
    const written = entryOf(tensors, tensor);
    const dims = written?.in ?? written?.out;
    if (!all.includes(name)) fault(key, `${op} has no ${name}: it has ${all.join(', ')}`);
    else if (!dims)
      fault(key, `unknown tensor "${tensor}"${didYouMean(tensor, known) || `: known are ${known.join(', ')}`}`);
    else if (dims.length !== axes.length)
      fault(key, `must have a letter for each of the ${dims.length} dimensions of ${tensor}, got ${axes.length}`);
    else if (writes.includes(name) !== (written?.out !== undefined))
      fault(
        key,
        `${op} ${writes.includes(name) ? 'writes' : 'reads'} ${name}: make ${tensor} an ${writes.includes(name) ? 'output' : 'input'}`,
      );
    else if (written?.when !== undefined && !takes.includes(name))
      fault(key, `${op} needs ${name} in every case: leave \`when\` out of ${tensor}`);
    else if ((name === 'selected') !== (written?.draw?.selected !== undefined))
      fault(
        key,
        name === 'selected'
          ? `must be an input with \`draw: { selected: … }\`, got "${tensor}"`
          : `${tensor} is drawn as lists of keys: name it as selected`,
      );
    else {
      const wrong =
        layoutFault(name, axes) ?? dtypeFault(name, tensor, tensors) ?? columnsFault(name, operand, { op, tensors });
      if (wrong) fault(key, wrong);
    }
  }
  for (const [name, tensor] of Object.entries(read.tables) as [TableName, string][]) {
    const rule = RULES[name];
    if (!entryOf(tensors, tensor)?.draw?.[rule])
      fault(['reference', name], `must be an input with \`draw: { ${rule}: … }\`, got "${tensor}"`);
  }
  const lists = read.operands.selected && entryOf(tensors, read.operands.selected.tensor)?.draw?.selected;
  if (lists && tables['key_offsets'])
    fault(['reference', 'selected'], 'lists name rows of a sequence that has a dimension: leave key_offsets out');
  if (lists && lists.lengths !== tables['key_lengths'])
    fault(
      ['reference', 'selected'],
      `its lists must end at key_lengths: write \`draw: { selected: { keys, lengths: ${tables['key_lengths'] ?? 'LENGTHS'} } }\` and \`key_lengths: ${tables['key_lengths'] ?? 'LENGTHS'}\``,
    );
  const sinks = operands['sinks'];
  if (operands['d_sinks'] && (!sinks || entryOf(tensors, sinks.tensor)?.when !== undefined))
    fault(['reference', 'd_sinks'], 'it is the gradient of sinks that every case has: name those, without `when`');
  const wrongPages = pageTableFault(read.tables, tensors);
  if (wrongPages) fault(...wrongPages);
  const computed = writes.flatMap((name) => read.operands[name]?.tensor ?? []);
  for (const [name, { out }] of Object.entries(tensors))
    if (out && !computed.includes(name))
      fault(['tensors', name], `${op} does not compute it: name it in \`reference\` as one of ${writes.join(', ')}`);
  return read;
}

/**
 * Why the columns of the second tensor cannot be appended to those of the first; undefined if they can, or there is no
 * second tensor.
 */
function columnsFault(
  name: OperandName,
  { tensor, more }: Operand,
  { op, tensors }: { op: Operation; tensors: RawProblem['tensors'] },
): string | undefined {
  if (more === undefined) return undefined;
  if (op !== 'attention' || (name !== 'q' && name !== 'k'))
    return 'only q and k of attention can be two tensors: name one';
  const [first, second] = [entryOf(tensors, tensor)!, entryOf(tensors, more)];
  const known = Object.keys(tensors);
  if (!second) return `unknown tensor "${more}"${didYouMean(more, known) || `: known are ${known.join(', ')}`}`;
  const rows = (dims: readonly string[] | undefined) =>
    dims
      ?.slice(0, -1)
      .map((dim) => dim.trim())
      .join();
  return second.when === undefined && rows(second.in) === rows(first.in) && sameDtype(tensor, more, tensors)
    ? undefined
    : `${more} must be an input of every case with the dtype and the dimensions of ${tensor}, but for the last`;
}

const sameDtype = (one: string, other: string, tensors: RawProblem['tensors']): boolean => {
  const [first, second] = [entryOf(tensors, one)!.dtype, entryOf(tensors, other)!.dtype];
  const isSameAs = (dtype: typeof first, name: string) =>
    'sameAs' in dtype && dtype.sameAs === name && Object.keys(dtype.others).length === 0;
  return JSON.stringify(first) === JSON.stringify(second) || isSameAs(second, one) || isSameAs(first, other);
};

/** Checks offsets into a page table with one dimension: both must have the same lengths and pages. */
function pageTableFault(
  { page_table: table, page_offsets: offsets }: Operands['tables'],
  tensors: RawProblem['tensors'],
): Parameters<Fault> | undefined {
  const pages = table === undefined ? undefined : entryOf(tensors, table);
  const flat = pages?.in?.length === 1;
  if (offsets === undefined)
    return flat
      ? [['reference', 'page_table'], `${table} has one dimension: name where its sequences begin in \`page_offsets\``]
      : undefined;
  const [rule, ofTable] = [entryOf(tensors, offsets)?.draw?.page_offsets, pages?.draw?.pages];
  if (flat && rule?.lengths === ofTable?.lengths && rule?.page.trim() === ofTable?.page.trim()) return undefined;
  return [
    ['reference', 'page_offsets'],
    'must be a page_table of one dimension, with the lengths and the page that its offsets are drawn with',
  ];
}
