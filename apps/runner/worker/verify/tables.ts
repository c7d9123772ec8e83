/**
 * Draws the int32 inputs of a case (lengths of sequences, offsets, page tables) and marks rows that belong to no
 * sequence.
 */
import {
  elementsOfTensor,
  type DrawRule,
  type ElementDtype,
  type OwnedRows,
  type ProblemCase,
  type TensorExtent,
} from '@flashcore/shared/kernels';
import { entryOf, setEntry } from '@flashcore/shared/text';
import { emptyBits, filledElement, tensorNamed, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { CounterRandom } from './random.ts';

type LengthsRule = Extract<DrawRule<number>, { kind: 'lengths' }>;
type PagesRule = Extract<DrawRule<number>, { kind: 'pages' }>;
type SelectedRule = Extract<DrawRule<number>, { kind: 'selected' }>;
type PageCountRule = Extract<DrawRule<number>, { kind: 'page_offsets' | 'last_pages' }>;

interface TableDrawing {
  /** Gives each table its own numbers. */
  random: (tensor: TensorExtent) => CounterRandom;
  /** See SeededInput. */
  evenLengths: boolean;
}

/** Draws the tables of a case. */
export function drawTables(
  { tensors }: ProblemCase,
  { random, evenLengths }: TableDrawing,
): Record<string, TensorBits> {
  const drawn: Record<string, TensorBits> = {};
  // Lengths come first, because offsets and pages follow from them.
  for (const tensor of tensors)
    if (tensor.draw?.kind === 'lengths')
      setEntry(
        drawn,
        tensor.name,
        evenLengths ? lengthsOfWork(tensor, tensor.draw) : lengths(tensor, tensor.draw, random(tensor)),
      );
  for (const tensor of tensors) {
    const { draw } = tensor;
    if (draw?.kind === 'offsets') setEntry(drawn, tensor.name, offsets(tensor, entryOf(drawn, draw.of)!));
    if (draw?.kind === 'page_offsets' || draw?.kind === 'last_pages')
      setEntry(drawn, tensor.name, pageCounts(tensor, draw, entryOf(drawn, draw.of)!));
    if (draw?.kind === 'selected')
      setEntry(
        drawn,
        tensor.name,
        selected(tensor, draw, {
          lengths: draw.of === undefined ? undefined : entryOf(drawn, draw.of)!,
          random: random(tensor),
          full: evenLengths,
        }),
      );
    if (draw?.kind === 'pages')
      setEntry(drawn, tensor.name, pages(tensor, draw, { lengths: entryOf(drawn, draw.of)!, random: random(tensor) }));
  }
  return drawn;
}

function lengthsOfWork(tensor: TensorExtent, { most, sum = 0 }: LengthsRule): TensorBits {
  const drawn = emptyBits(elementsOfTensor(tensor), 'int32');
  return most === undefined ? evenParts(drawn, sum) : drawn.fill(most);
}

function evenParts(drawn: TensorBits, sum: number): TensorBits {
  const [each, rest] = [Math.floor(sum / drawn.length), sum % drawn.length];
  for (const index of drawn.keys()) drawn[index] = each + Number(index < rest);
  return drawn;
}

/**
 * One sequence has the maximum length, the next ones have lengths that often break kernels, and the others have any
 * length.
 */
function lengths(
  tensor: TensorExtent,
  { most, sum, page = 1, multipleOf = 1 }: LengthsRule,
  random: CounterRandom,
): TensorBits {
  const drawn = emptyBits(elementsOfTensor(tensor), 'int32');
  const special = shuffled([...new Set([0, 1, page - 1, page, page + 1])], random);
  if (most === undefined) return lengthsOfSum(drawn, { sum: sum!, special, random });
  if (drawn.length >= LEAST_NEARLY_EVEN && random.below(NEARLY_EVEN_ONE_IN) === 0) {
    const length = special[0]! < most ? special[0]! : random.below(most + 1);
    drawn.fill(most)[1 + random.below(drawn.length - 2)] = Math.min(most, Math.ceil(length / multipleOf) * multipleOf);
    return drawn;
  }
  const places = shuffled(Array.from(drawn.keys()), random);
  const isLongest = isMost(drawn.length, random);
  for (const [index, place] of places.entries())
    drawn[place] =
      index === 0 && isLongest
        ? most
        : Math.min(
            most,
            Math.ceil((special[isLongest ? index - 1 : index] ?? random.below(most + 1)) / multipleOf) * multipleOf,
          );
  return drawn;
}

/**
 * Whether one of `count` is as long as possible. A lone one is so in half of the draws, because a kernel may take it
 * for full.
 */
const isMost = (count: number, random: CounterRandom): boolean => count > 1 || random.below(2) === 0;

/**
 * One draw in NEARLY_EVEN_ONE_IN has the even lengths of timed launches, except for one or two sequences between the
 * first and the last. A kernel that looks at a few lengths may take all of them for equal. Fewer sequences than this
 * have no such draws.
 */
const LEAST_NEARLY_EVEN = 4;
const NEARLY_EVEN_ONE_IN = 8;

interface Partition {
  sum: number;
  special: readonly number[];
  random: CounterRandom;
}

/** Splits the sum among the sequences; one sequence takes whatever the others leave. */
function lengthsOfSum(drawn: TensorBits, { sum, special, random }: Partition): TensorBits {
  if (drawn.length >= LEAST_NEARLY_EVEN && random.below(NEARLY_EVEN_ONE_IN) === 0)
    return nearlyEven(drawn, sum, random);
  const [last, ...places] = shuffled(Array.from(drawn.keys()), random);
  let left = sum;
  for (const [index, place] of places.entries()) {
    const fair = Math.ceil((2 * left) / (places.length + 1 - index));
    drawn[place] = Math.min(left, special[index] ?? random.below(fair + 1));
    left -= drawn[place];
  }
  drawn[last!] = left;
  if (drawn.length >= LEAST_WITH_EMPTY && random.below(2) === 0) emptyInARow(drawn, random);
  return drawn;
}

function nearlyEven(drawn: TensorBits, sum: number, random: CounterRandom): TensorBits {
  evenParts(drawn, sum);
  const from = 1 + random.below(drawn.length - 2);
  const to = 1 + ((from + random.below(drawn.length - 3)) % (drawn.length - 2));
  const moved = Math.min(drawn[from]!, 1 + random.below(Math.max(1, drawn[from]!)));
  drawn[from]! -= moved;
  drawn[to]! += moved;
  return drawn;
}

/** Minimum number of sequences of which some next to each other have no tokens, in half of the draws. */
const LEAST_WITH_EMPTY = 4;

/** Gives the tokens of two or more sequences in a row to the sequence before or after them. */
function emptyInARow(drawn: TensorBits, random: CounterRandom): void {
  const count = 2 + random.below(Math.floor(drawn.length / 2) - 1);
  const first = random.below(drawn.length - count + 1);
  const heir = first > 0 ? first - 1 : first + count;
  for (let place = first; place < first + count; place += 1) {
    drawn[heir]! += drawn[place]!;
    drawn[place] = 0;
  }
}

function offsets(tensor: TensorExtent, ofLengths: TensorBits): TensorBits {
  const drawn = emptyBits(elementsOfTensor(tensor), 'int32');
  for (const [sequence, length] of ofLengths.entries()) drawn[sequence + 1] = drawn[sequence]! + length;
  return drawn;
}

function pageCounts(tensor: TensorExtent, { kind, page }: PageCountRule, ofLengths: TensorBits): TensorBits {
  const drawn = emptyBits(elementsOfTensor(tensor), 'int32');
  for (const [sequence, length] of ofLengths.entries())
    if (kind === 'page_offsets') drawn[sequence + 1] = drawn[sequence]! + Math.ceil(length / page);
    else drawn[sequence] = length === 0 ? 0 : ((length - 1) % page) + 1;
  return drawn;
}

/** Draws page tables. Entries after a sequence's last page name a page that belongs to no sequence, if there is one. */
function pages(
  tensor: TensorExtent,
  { page, pool }: PagesRule,
  { lengths: ofLengths, random }: { lengths: TensorBits; random: CounterRandom },
): TensorBits {
  const drawn = emptyBits(elementsOfTensor(tensor), 'int32');
  const places = random.below(2) === 0 ? shuffledRuns(pool, random) : shuffled(ascendingTo(pool), random);
  const free = places[pool - 1]!;
  drawn.fill(free);
  let taken = 0;
  for (const [sequence, length] of ofLengths.entries()) {
    const first = firstPage(tensor, sequence, taken);
    for (let index = 0; index < Math.ceil(length / page); index += 1) drawn[first + index] = places[taken++]!;
  }
  return drawn;
}

/**
 * Index of a sequence's first page. In a table with one dimension it follows the `before` pages of earlier sequences.
 */
const firstPage = ({ dims }: TensorExtent, sequence: number, before: number): number =>
  dims.length === 1 ? before : sequence * dims[1]!;

/** Entries after the last key of a list; -1 as int32. */
const NO_KEY = 0xffff_ffff;

interface Selecting {
  lengths: TensorBits | undefined;
  random: CounterRandom;
  /** Whether every list has as many keys as it can, as in timed launches. */
  full: boolean;
}

/**
 * One list has the most keys, one none and one a single key, and the others have any number of them. A lone list has
 * the most keys in half of the draws.
 */
function selected(
  { dims }: TensorExtent,
  { keys, owner = 0 }: SelectedRule,
  { lengths: ofLengths, random, full }: Selecting,
): TensorBits {
  const places = dims.at(-1)!;
  const drawn = emptyBits(elementsOfTensor({ dims }), 'int32').fill(NO_KEY);
  const lists = drawn.length / places;
  const sequenceOf = (list: number): number =>
    Math.floor(list / elementsOfTensor({ dims: dims.slice(owner + 1, -1) })) % dims[owner]!;
  const keysOf = (list: number): number => Math.min(keys, ofLengths?.[sequenceOf(list)] ?? keys);
  // All keys, which are back in ascending order after each list.
  const ascending = Uint32Array.from({ length: keys }, (_, key) => key);
  const fill = (list: number, count: number): void => {
    if (!full && random.below(2) === 0) {
      drawn.set(shuffledRuns(keysOf(list), random).slice(0, count), list * places);
      return;
    }
    const others: number[] = [];
    const swap = (one: number, other: number): void => {
      [ascending[one], ascending[other]] = [ascending[other]!, ascending[one]!];
    };
    for (let place = 0; place < count; place += 1) {
      others.push(place + random.below(keysOf(list) - place));
      swap(place, others[place]!);
      drawn[list * places + place] = ascending[place]!;
    }
    for (let place = count - 1; place >= 0; place -= 1) swap(place, others[place]!);
  };
  const order = shuffled(ascendingTo(lists), random);
  // The longest list has the most keys even if some sequences are short.
  const longest = order.reduce((best, list) => (keysOf(list) > keysOf(best) ? list : best));
  const counts = isMost(lists, random) ? [Infinity, 0, 1] : [];
  for (const [index, list] of [longest, ...order.filter((each) => each !== longest)].entries()) {
    const most = Math.min(places, keysOf(list));
    fill(list, full ? most : Math.min(most, counts[index] ?? random.below(most + 1)));
  }
  return drawn;
}

/** A NaN in every floating dtype, as 16-bit words. It differs from the poison of outputs. */
const NOBODYS = 0x7fff;
/** int8 has no NaN: -128 is the number farthest from 0, and never drawn where rows may belong to nobody. */
const NOBODYS_INT8 = 0x80;
/** An element that no kernel may use. */
export const nobodysElement = (dtype: ElementDtype): number =>
  dtype === 'int8' ? NOBODYS_INT8 : filledElement(NOBODYS, dtype);

/** Fills rows that belong to no sequence with NaN, or with -128. */
export function markNobodysRows(bits: TensorBits, tensor: TensorExtent, of: ProblemCase, drawn: TensorsByName): void {
  const { rows, dims, dtype } = tensor;
  if (!rows) return;
  const isOwned = ownedRows(tensor, rows, { of, drawn });
  const nobodys = nobodysElement(dtype);
  const strides = dims.map((_, dim) => elementsOfTensor({ dims: dims.slice(dim + 1) }));
  // The elements inside the innermost of these dimensions belong to the same row, so they are filled at once.
  const inner = strides[Math.max(...rows.owners, rows.row)]!;
  for (let start = 0; start < bits.length; start += inner) {
    const at = (dim: number): number => Math.floor(start / strides[dim]!) % dims[dim]!;
    if (!isOwned(rows.owners.map(at), at(rows.row))) bits.fill(nobodys, start, start + inner);
  }
}

interface Drawn {
  of: ProblemCase;
  drawn: TensorsByName;
}

type IsOwned = (owners: readonly number[], row: number) => boolean;

/** Returns a function that tells whether a row of a sequence, of a page or of lists of keys is in use. */
function ownedRows(tensor: TensorExtent, rows: OwnedRows, { of, drawn }: Drawn): IsOwned {
  const table = tensorNamed(of, rows.table);
  const { draw } = table;
  if (draw?.kind === 'selected') return selectedRows(tensor, rows, { table, lists: entryOf(drawn, table.name)! });
  if (draw?.kind !== 'pages') return ([sequence], row) => row < entryOf(drawn, table.name)![sequence!]!;
  const { page } = draw;
  const ofPage = new Map<number, number>();
  let before = 0;
  for (const [sequence, length] of entryOf(drawn, tensorNamed(of, draw.of).name)!.entries()) {
    const first = firstPage(table, sequence, before);
    for (let index = 0; index * page < length; index += 1, before += 1)
      ofPage.set(entryOf(drawn, table.name)![first + index]!, Math.min(page, length - index * page));
  }
  return ([place], row) => row < (ofPage.get(place!) ?? 0);
}

/** The rows that at least one list names, for each place along the dimensions that lists and rows have in common. */
function selectedRows(
  { dims }: TensorExtent,
  { owners, tableDims = [], row }: OwnedRows,
  { table, lists }: { table: TensorExtent; lists: TensorBits },
): IsOwned {
  const keys = dims[row]!;
  const common = owners.map((dim) => dims[dim]!);
  const indexOf = (places: readonly number[]): number =>
    places.reduce((index, place, each) => index * common[each]! + place, 0);
  const named = new Uint8Array(elementsOfTensor({ dims: common }) * keys);
  const places = table.dims.at(-1)!;
  const strides = table.dims.map((_, dim) => elementsOfTensor({ dims: table.dims.slice(dim + 1) }));
  for (let start = 0; start < lists.length; start += places) {
    const first = keys * indexOf(tableDims.map((dim) => Math.floor(start / strides[dim]!) % table.dims[dim]!));
    for (const key of lists.subarray(start, start + places)) if (key !== NO_KEY) named[first + key] = 1;
  }
  return (at, key) => named[indexOf(at) * keys + key] === 1;
}

const ascendingTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/**
 * The numbers below `count` in runs of consecutive ones, in random order: caches are filled, and keys are selected, in
 * such runs, and a kernel may take the first numbers of a run for all.
 */
function shuffledRuns(count: number, random: CounterRandom): number[] {
  const runs: number[][] = [];
  const longest = Math.min(
    LONGEST_RUNS[random.below(LONGEST_RUNS.length)]!,
    Math.max(SHORT_RUN, Math.floor(count / 4)),
  );
  for (let first = 0; first < count; first += runs.at(-1)!.length) {
    const length = Math.min(count - first, 1 + random.below(longest));
    runs.push(ascendingTo(length).map((index) => first + index));
  }
  return shuffled(runs, random).flat();
}
/** A kernel may take more than a few numbers in a row for all. */
const SHORT_RUN = 8;
const LONGEST_RUNS = [SHORT_RUN, 64];

function shuffled<Value>(values: readonly Value[], random: CounterRandom): Value[] {
  const order = [...values];
  for (let left = order.length - 1; left > 0; left -= 1) {
    const other = random.below(left + 1);
    [order[left], order[other]] = [order[other]!, order[left]!];
  }
  return order;
}
