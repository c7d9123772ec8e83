/** How a problem draws its int32 inputs, and which rows of its other inputs belong to a sequence. */
import { TENSOR_DTYPES, isSmall } from '../data/dtype.ts';
import type { Expression } from '../data/expression.ts';
import { dtypesOf } from './operands.ts';
import type { RawDraw, RawProblem } from './problem-schema.ts';
import { entryOf } from '../text/entry-of.ts';

/**
 * How the runner draws an int32 input. `Extent` is an expression in a problem, and a number in a case.
 *
 * - `lengths`: the length of each sequence. Each is at most `most`, or all add up to `sum`. The lengths 0, 1, `page`
 *   and `page` +- 1 occur if they fit. If `multipleOf` is set, all lengths are multiples of it.
 * - `offsets`: prefix sums of the lengths `of`, one more than there are sequences.
 * - `pages`: a page table [sequences, pages of a sequence] for the lengths `of`. Its entries are distinct, shuffled
 *   places in a pool of pages. With one dimension, the pages of a sequence follow those of the previous sequence.
 * - `page_offsets`: the start of each sequence's pages in such a table, one more than there are sequences.
 * - `selected`: lists of keys along the last dimension, each with distinct keys in random order, then -1. One list
 *   has as many keys as it can, one is empty, and one has a single key. Keys are below `keys`, and below the length
 *   `of` of the list's sequence, which the dimension `owner` counts. `queries` consecutive queries share a list;
 *   absent: each query has its own.
 * - `last_pages`: rows in the last page of each sequence; 0 if it has no page.
 */
export type DrawRule<Extent> =
  | ({ readonly kind: 'lengths' } & LengthsRule<Extent>)
  | { readonly kind: 'offsets'; readonly of: string }
  | { readonly kind: 'pages'; readonly of: string; readonly page: Extent; readonly pool: Extent }
  | { readonly kind: 'page_offsets' | 'last_pages'; readonly of: string; readonly page: Extent }
  | ({ readonly kind: 'selected' } & SelectedRule<Extent>);

interface SelectedRule<Extent> {
  readonly keys: Extent;
  readonly of?: string;
  readonly owner?: number;
  readonly queries?: Extent;
}

interface LengthsRule<Extent> {
  readonly most?: Extent;
  readonly sum?: Extent;
  readonly page?: Extent;
  readonly multipleOf?: Extent;
}

/**
 * Rows of an input that belong to a sequence or to a list of keys; all others are NaN. `table` is a tensor with
 * `lengths`, `pages` or `selected`.
 */
export interface OwnedRows {
  readonly table: string;
  /** Indices of the dimensions that count sequences or pages or, for lists of keys, that the lists have as well. */
  readonly owners: readonly number[];
  /** The same dimensions as indices of the dimensions of lists of keys. */
  readonly tableDims?: readonly number[];
  /** Index of the dimension that counts rows of a sequence or of a page. */
  readonly row: number;
}

export interface TensorRules {
  readonly draw: DrawRule<Expression> | undefined;
  readonly rows: OwnedRows | undefined;
}

export interface RuleReader {
  readonly tensors: RawProblem['tensors'];
  /** Parses an expression over axes that gives an extent. */
  readonly extent: (text: string, key: (string | number)[]) => Expression;
  readonly fault: (key: (string | number)[], message: string) => void;
}

/** The rules of a tensor. Reports rules that do not fit it. */
export function tensorRules(name: string, reader: RuleReader): TensorRules {
  const { tensors, fault } = reader;
  const { draw, rows, dtype, in: dims, optional, when, tolerance, rounds, role } = entryOf(tensors, name)!;
  const key = ['tensors', name];
  const isInt32 = 'own' in dtype && dtype.own === 'int32';
  if (isInt32 && !dims)
    fault([...key, 'dtype'], `an output must be ${TENSOR_DTYPES.join(', ')}, got int32: choose one of them`);
  else if (isInt32 && !draw)
    fault(key, 'an int32 input needs a rule: add `draw: { lengths, offsets, pages or selected }`');
  if (draw && !isInt32) fault([...key, 'draw'], 'only an int32 input has a rule: write `dtype: int32`');
  const small =
    dims && role === 'bias' ? dtypesOf(tensors, name).find((each) => each !== 'int32' && isSmall(each)) : undefined;
  if (small !== undefined)
    fault([...key, 'dtype'], `a bias has minus infinity, which ${small} does not keep: give it fp16, bf16 or fp32`);
  if (dims && optional) fault([...key, 'optional'], 'only an output can be optional: leave it out');
  if (!dims && when !== undefined)
    fault([...key, 'when'], 'only an input has `when`: an output that some kernels have is `optional`');
  if (isInt32 && when !== undefined) fault([...key, 'when'], 'every case has its int32 inputs: leave it out');
  if (dims && tolerance !== undefined) fault([...key, 'tolerance'], 'only an output has a tolerance: leave it out');
  if (dims && rounds !== undefined) fault([...key, 'rounds'], 'only an output is rounded: leave it out');
  return {
    draw: draw && dims ? compiledDraw(draw, dims, { ...reader, key: [...key, 'draw'] }) : undefined,
    rows: rows === undefined ? undefined : ownedRows(rows, dims, { ...reader, key: [...key, 'rows'] }),
  };
}

type KeyedReader = RuleReader & { readonly key: (string | number)[] };

function compiledDraw(written: RawDraw, dims: readonly string[], reader: KeyedReader): DrawRule<Expression> {
  const { key, extent, fault } = reader;
  const { lengths, offsets, pages } = written;
  const rank = (wanted: number, what: string): void => {
    if (dims.length !== wanted) fault(key, `must have ${what}, got ${dims.length} dimensions`);
  };
  if (lengths) {
    rank(1, 'one dimension, the sequences');
    const read = (part: keyof typeof lengths): Expression | undefined => {
      const text = lengths[part];
      return text === undefined ? undefined : extent(text, [...key, 'lengths', part]);
    };
    const [most, sum, page, multipleOf] = [read('most'), read('sum'), read('page'), read('multiple_of')];
    return {
      kind: 'lengths',
      ...(most && { most }),
      ...(sum && { sum }),
      ...(page && { page }),
      ...(multipleOf && { multipleOf }),
    };
  }
  if (offsets !== undefined) {
    rank(1, 'one dimension, the sequences and one more');
    requireLengths(offsets, 'offsets', reader);
    return { kind: 'offsets', of: offsets };
  }
  for (const kind of ['page_offsets', 'last_pages'] as const) {
    const rule = written[kind];
    if (!rule) continue;
    rank(1, kind === 'last_pages' ? 'one dimension, the sequences' : 'one dimension, the sequences and one more');
    requireLengths(rule.lengths, kind, reader);
    return { kind, of: rule.lengths, page: extent(rule.page, [...key, kind, 'page']) };
  }
  if (written.selected) {
    const { keys, lengths: of, queries } = written.selected;
    if (of !== undefined) requireLengths(of, 'selected', reader);
    const ofLengths = of === undefined ? undefined : entryOf(reader.tensors, of)?.in?.[0]?.trim();
    const owner = dims.slice(0, -1).findIndex((text) => text.trim() === ofLengths);
    if (ofLengths !== undefined && owner < 0)
      fault(
        [...key, 'selected'],
        `must have a dimension "${ofLengths}", as ${of} has it, before the last: write it in \`in\``,
      );
    return {
      kind: 'selected',
      keys: extent(keys, [...key, 'selected', 'keys']),
      ...(of !== undefined && { of, owner: Math.max(0, owner) }),
      ...(queries !== undefined && { queries: extent(queries, [...key, 'selected', 'queries']) }),
    };
  }
  if (dims.length !== 1) rank(2, 'two dimensions, sequences and pages of a sequence, or one, pages of all sequences');
  requireLengths(pages!.lengths, 'pages', reader);
  if (lengthsOf(reader.tensors, pages!.lengths)?.sum !== undefined)
    fault([...key, 'pages'], `must be lengths with \`most\`, which bounds pages, got \`sum\` of ${pages!.lengths}`);
  return {
    kind: 'pages',
    of: pages!.lengths,
    page: extent(pages!.page, [...key, 'pages', 'page']),
    pool: extent(pages!.pool, [...key, 'pages', 'pool']),
  };
}

function requireLengths(name: string, rule: string, { tensors, key, fault }: KeyedReader): void {
  if (lengthsOf(tensors, name)) return;
  const known = Object.keys(tensors).filter((each) => lengthsOf(tensors, each));
  const remedy = known.length > 0 ? `name one of ${known.join(', ')}` : 'add an input with `draw: { lengths: … }`';
  fault([...key, rule], `must be an input with \`draw: { lengths: … }\`, got "${name}": ${remedy}`);
}

const drawOf = (tensors: RawProblem['tensors'], name: string): RawDraw | undefined => entryOf(tensors, name)?.draw;
const lengthsOf = (tensors: RawProblem['tensors'], name: string) => drawOf(tensors, name)?.lengths;

/**
 * The dimensions of an input with rows of this table, as texts: first the dimensions that count sequences or pages, or
 * that lists of keys may have too; then the dimension that counts rows. Undefined if the table has no rows.
 */
export function ownersAndRow(
  tensors: RawProblem['tensors'],
  table: string,
): { owners: readonly string[]; row: string } | undefined {
  const { lengths, pages, selected } = drawOf(tensors, table) ?? {};
  const dims = entryOf(tensors, table)?.in ?? [];
  if (pages) return { owners: [pages.pool], row: pages.page };
  if (selected) return { owners: dims.slice(0, -1), row: selected.keys };
  return lengths?.most === undefined ? undefined : { owners: [dims[0] ?? ''], row: lengths.most };
}

/** Finds the dimensions that count sequences or pages and rows, by comparing their texts. */
function ownedRows(table: string, dims: readonly string[] | undefined, reader: KeyedReader): OwnedRows | undefined {
  const { tensors, key, fault } = reader;
  const texts = ownersAndRow(tensors, table);
  if (dims && texts) {
    // Lists of keys may have dimensions that keys lack, such as queries.
    const mayLack = drawOf(tensors, table)?.selected !== undefined;
    const placed = texts.owners.map((text) => placeOf(text, dims, mayLack));
    const owners = placed.filter((dim) => dim !== undefined);
    const tableDims = placed.flatMap((dim, index) => (dim === undefined ? [] : [index]));
    return { table, owners, ...(mayLack && { tableDims }), row: placeOf(texts.row, dims) ?? 0 };
  }
  if (dims)
    fault(
      key,
      `must be an input with \`draw: { lengths: { most } }\`, \`draw: { pages }\` or \`draw: { selected }\`, got "${table}"`,
    );
  else fault(key, 'only an input has rows that no sequence owns: leave it out');
  return undefined;

  function placeOf(wanted: string, of: readonly string[], mayLack = false): number | undefined {
    const places = of.flatMap((text, dim) => (text.trim() === wanted.trim() ? [dim] : []));
    if (places.length !== 1 && !(mayLack && places.length === 0))
      fault(key, `must have one dimension "${wanted}", as ${table} has it, got ${places.length}: write it in \`in\``);
    return places[0];
  }
}
