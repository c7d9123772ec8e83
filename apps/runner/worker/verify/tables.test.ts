/** Tests lengths, offsets, page tables and lists of keys, and rows that belong to none of them. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { installedProblem, parseProblem, problemCase, type ProblemCase } from '@flashcore/shared/kernels';
import { tensorNamed, valueReader, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { SeededInput } from '../messages/launchable.ts';
import { NORMAL, drawInputs } from './inputs.ts';

const SEEDS = Array.from({ length: 20 }, (_, seed) => (seed + 1).toString(16));
const drawn = (of: ProblemCase, seed: string, more: Partial<SeededInput> = {}): TensorsByName =>
  drawInputs(of, { seed, rule: NORMAL, ...more });
const paged = (values: Record<string, number>): ProblemCase =>
  problemCase(installedProblem('attention_decode_paged'), { H: 2, Hkv: 1, D: 8, ...values }, 'bf16');
const contiguous = (values: Record<string, number>): ProblemCase =>
  problemCase(installedProblem('attention_decode'), { H: 2, Hkv: 1, D: 8, ...values }, 'fp16');

/** Whether all sequences but one, which is neither the first nor the last, are full. */
const isNearlyEven = (lengths: readonly number[], most: number): boolean => {
  const others = [...lengths.keys()].filter((place) => lengths[place] !== most);
  return others.length === 1 && others[0]! > 0 && others[0]! < lengths.length - 1;
};

test.each(SEEDS)(
  'one sequence is full, and lengths of 0, 1, a page, and a page plus or minus one occur, or one is not full: seed %s',
  (seed) => {
    const { lengths } = drawn(paged({ B: 7, Skv: 200, page: 16 }), seed);
    const found = Array.from(lengths!);
    const hasAll = [200, 0, 1, 15, 16, 17].every((length) => found.includes(length));
    expect(hasAll !== isNearlyEven(found, 200)).toBe(true);
    expect(Math.max(...found)).toBe(200);
  },
);

test('some draws have sequences as in timed launches but for one or two, neither the first nor the last', () => {
  const cached = SEEDS.map((seed) => Array.from(drawn(paged({ B: 9, Skv: 64, page: 16 }), seed)['lengths']!));
  expect(new Set(cached.map((lengths) => isNearlyEven(lengths, 64)))).toEqual(new Set([true, false]));
  const packed = problemCase(installedProblem('attention_varlen'), { B: 6, T: 60, H: 2, D: 8 }, 'fp16');
  const isUneven = (length: number): boolean => length !== 10;
  const even = SEEDS.map((seed) => Array.from(drawn(packed, seed)['lengths']!)).filter(
    (lengths) => lengths.filter(isUneven).length === 2,
  );
  expect(even.length).toBeGreaterThan(0);
  for (const lengths of even) {
    expect([lengths[0], lengths[5]]).toEqual([10, 10]);
    expect(lengths.reduce((sum, length) => sum + length)).toBe(60);
  }
});

test('in about half of the draws pages and keys of lists are in runs, each with a jump behind it', () => {
  const inRuns = (numbers: readonly number[]): boolean =>
    numbers.filter((each, index) => each === numbers[index - 1]! + 1).length > numbers.length / 2;
  const tables = SEEDS.map((seed) =>
    Array.from(drawn(paged({ B: 1, Skv: 200, page: 1 }), seed, { evenLengths: true })['table']!),
  );
  const lists = SEEDS.map((seed) => {
    const of = problemCase(
      installedProblem('attention_selected'),
      { B: 1, S: 2, H: 1, Skv: 200, topk: 200, D: 8 },
      'bf16',
    );
    return listsOf(drawn(of, seed)['selected']!, 200).find(({ keys }) => keys.length === 200)!.keys;
  });
  for (const all of [tables, lists]) {
    const runs = all.filter(inRuns);
    expect([runs.length > SEEDS.length / 5, runs.length < (4 * SEEDS.length) / 5]).toEqual([true, true]);
    for (const each of runs) expect(each).not.toEqual(each.toSorted((a, b) => a - b));
    // Nine that follow each other do not speak for all.
    const nine = runs.filter((numbers) => numbers.slice(0, 9).every((each, index) => each === numbers[0]! + index));
    expect(nine.length).toBeGreaterThan(0);
  }
});

test('shapes with the same seed do not all have the same kind of lengths', () => {
  const kinds = Array.from({ length: 40 }, (_, more) =>
    isNearlyEven(Array.from(drawn(paged({ B: 9, Skv: 40 + more, page: 16 }), '1')['lengths']!), 40 + more),
  );
  expect(new Set(kinds)).toEqual(new Set([true, false]));
});

test('a lone sequence is full in some draws and shorter in others, and lengths stay within a cache that is shorter than a page', () => {
  const lone = SEEDS.map((seed) => drawn(paged({ B: 1, Skv: 40, page: 16 }), seed)['lengths']![0]!);
  expect([lone.includes(40), lone.some((length) => length < 40), Math.max(...lone)]).toEqual([true, true, 40]);
  for (const seed of SEEDS) {
    const lengths = Array.from(drawn(paged({ B: 9, Skv: 5, page: 64 }), seed)['lengths']!);
    expect(lengths.every((length) => length <= 5)).toBe(true);
  }
});

test('the same seed draws the same tables, and another seed draws others', () => {
  const of = paged({ B: 7, Skv: 200, page: 16 });
  expect(drawn(of, 'a')).toEqual(drawn(of, 'a'));
  expect(drawn(of, 'a')['lengths']).not.toEqual(drawn(of, 'b')['lengths']);
  expect(drawn(of, 'a')['table']).not.toEqual(drawn(of, 'b')['table']);
});

test('timed launches have full caches and different tables', () => {
  const of = paged({ B: 4, Skv: 40, page: 16 });
  const [one, other] = [drawn(of, '1', { evenLengths: true }), drawn(of, '2', { evenLengths: true })];
  expect([one['lengths'], other['lengths']]).toEqual([Uint32Array.of(40, 40, 40, 40), Uint32Array.of(40, 40, 40, 40)]);
  expect(one['table']).not.toEqual(other['table']);
});

/** A row of 8 values of bf16. */
const rowOf = (tensor: TensorBits, row: number): number[] =>
  Array.from({ length: 8 }, (_, d) => valueReader(tensor, 'bf16')(row * 8 + d));

test.each(SEEDS)('each page belongs to one sequence, and only rows in use are numbers: seed %s', (seed) => {
  const [page, ofSequence] = [4, 8];
  const of = paged({ B: 6, Skv: 30, page });
  const { lengths, table, K } = drawn(of, seed);
  const entries = Array.from(lengths!).flatMap((length, sequence) =>
    Array.from({ length: Math.ceil(length / page) }, (_, index) => ({
      place: table![sequence * ofSequence + index]!,
      rows: Math.min(page, length - index * page),
    })),
  );
  const places = entries.map(({ place }) => place);
  const pool = tensorNamed(of, 'K').dims[0]!;
  expect(new Set(places).size).toBe(places.length);
  expect(Array.from(table!).every((place) => place < pool)).toBe(true);
  for (let row = 0; row < pool * page; row += 1) {
    const { rows = 0 } = entries.find(({ place }) => place === Math.floor(row / page)) ?? {};
    expect(rowOf(K!, row).every(row % page < rows ? Number.isFinite : Number.isNaN)).toBe(true);
  }
});

const FLAT_TEXT = `id: flat
title: pages of all sequences in one list
axes:
  B: { about: sequences }
  S: { about: rows of a sequence }
  D: { about: columns }
attributes:
  scale: { value: 1, about: scale }
tensors:
  Q: { in: [B, D], dtype: [bf16], role: q }
  K: { in: [B * ceil(S / 4) + 1, 4, D], dtype: same_as(Q), role: k, rows: table }
  lengths: { in: [B], dtype: int32, draw: { lengths: { most: S, page: 4 } } }
  begins: { in: [B + 1], dtype: int32, draw: { page_offsets: { lengths: lengths, page: 4 } } }
  last: { in: [B], dtype: int32, draw: { last_pages: { lengths: lengths, page: 4 } } }
  table: { in: [B * ceil(S / 4)], dtype: int32, draw: { pages: { lengths: lengths, page: 4, pool: B * ceil(S / 4) + 1 } } }
  O: { out: [B, D], dtype: same_as(Q) }
reference: { op: attention, q: 'Q[b d]', k: 'K[b s d]', v: 'K[b s d]', o: 'O[b d]', key_lengths: lengths, page_table: table, page_offsets: begins }
work: { flops: '4 * B * S * D' }
`;
const FLAT = parseProblem(FLAT_TEXT, 'problem.yaml');

test.each(SEEDS)('pages of all sequences are consecutive in one list, and other pages are NaN: seed %s', (seed) => {
  const of = problemCase(FLAT, { B: 6, S: 30, D: 8 }, 'bf16');
  const { lengths, begins, last, table, K } = drawn(of, seed);
  const owned = new Map<number, number>();
  for (const [sequence, length] of lengths!.entries()) {
    const pages = Array.from(table!.slice(begins![sequence], begins![sequence + 1]));
    expect([pages.length, last![sequence]]).toEqual([Math.ceil(length / 4), length === 0 ? 0 : length % 4 || 4]);
    for (const [index, page] of pages.entries()) owned.set(page, index < pages.length - 1 ? 4 : last![sequence]!);
  }
  expect([begins![0], owned.size]).toEqual([0, begins![6]]);
  for (let row = 0; row < 49 * 4; row += 1)
    expect(rowOf(K!, row).every(Number.isNaN)).toBe(row % 4 >= (owned.get(Math.floor(row / 4)) ?? 0));
});

test.each(SEEDS)('lengths are multiples if they must be, and one has the maximum length: seed %s', (seed) => {
  const text = '{ most: S, page: 4, multiple_of: 4 }';
  const whole = parseProblem(FLAT_TEXT.replace('{ most: S, page: 4 }', text), 'problem.yaml');
  const lengths = Array.from(drawn(problemCase(whole, { B: 9, S: 32, D: 8 }, 'bf16'), seed)['lengths']!);
  expect([lengths.filter((length) => length % 4 !== 0), Math.max(...lengths)]).toEqual([[], 32]);
  expect(lengths.includes(0) || isNearlyEven(lengths, 32)).toBe(true);
});

test('rows after the end of a sequence are NaN in a contiguous cache', () => {
  const of = contiguous({ B: 5, Skv: 9 });
  const { lengths, K, V, Q } = drawn(of, '7');
  const nan = (tensor: 'K' | 'V') =>
    Array.from({ length: 5 * 9 * 8 }, (_, i) => Number.isNaN(valueReader((tensor === 'K' ? K : V)!, 'fp16')(i)));
  const wanted = Array.from({ length: 5 * 9 * 8 }, (_, i) => Math.floor(i / 8) % 9 >= lengths![Math.floor(i / 72)]!);
  expect([nan('K'), nan('V')]).toEqual([wanted, wanted]);
  expect(Array.from(Q!, (_, i) => valueReader(Q!, 'fp16')(i)).every(Number.isFinite)).toBe(true);
});

const ints = (bits: TensorBits): Int32Array => new Int32Array(bits.buffer);
/** The lists of a case with their keys, and the padding after them. */
const listsOf = (bits: TensorBits, places: number): { keys: number[]; padding: number[] }[] =>
  Array.from({ length: bits.length / places }, (_, list) => {
    const entries = Array.from(ints(bits).subarray(list * places, (list + 1) * places));
    const end = entries.includes(-1) ? entries.indexOf(-1) : places;
    return { keys: entries.slice(0, end), padding: entries.slice(end) };
  });
const selecting = (values: Record<string, number>): ProblemCase =>
  problemCase(installedProblem('attention_selected'), { H: 4, Hkv: 2, D: 8, ...values }, 'bf16');

test.each(SEEDS)('lists have distinct keys in random order, then -1; none, one and all keys occur: seed %s', (seed) => {
  const drawnLists = [16, 30, 40].map((topk) => {
    const lists = listsOf(drawn(selecting({ B: 2, S: 3, Skv: 30, topk }), seed)['selected']!, topk);
    for (const { keys, padding } of lists) {
      expect(new Set(keys).size).toBe(keys.length);
      expect(keys.every((key) => key >= 0 && key < 30)).toBe(true);
      expect(padding.every((entry) => entry === -1)).toBe(true);
    }
    const counts = lists.map(({ keys }) => keys.length);
    for (const count of [0, 1, Math.min(topk, 30)]) expect(counts).toContain(count);
    return lists;
  });
  const longest = drawnLists[1]!.find(({ keys }) => keys.length === 30)!;
  expect(longest.keys).not.toEqual(longest.keys.toSorted((a, b) => a - b));
});

test('a single list has the most keys, and timed launches have only full lists', () => {
  expect(
    listsOf(drawn(selecting({ B: 1, S: 1, H: 2, Hkv: 1, Skv: 9, topk: 4 }), '3')['selected']!, 4)[0]!.keys,
  ).toHaveLength(4);
  const timed = (topk: number) =>
    listsOf(drawn(selecting({ B: 2, S: 3, Skv: 30, topk }), '5', { evenLengths: true })['selected']!, topk);
  expect(timed(8).every(({ keys }) => keys.length === 8)).toBe(true);
  expect(timed(40).every(({ keys }) => keys.length === 30)).toBe(true);
  expect(timed(8)[0]).not.toEqual(timed(8)[1]);
});

test.each(SEEDS)('rows of K that no list of their sequence and head names are NaN: seed %s', (seed) => {
  const of = selecting({ B: 3, S: 2, Skv: 40, topk: 12 });
  const { selected, K } = drawn(of, seed);
  const lists = listsOf(selected!, 12);
  for (let row = 0; row < 3 * 40 * 2; row += 1) {
    const [head, key, b] = [row % 2, Math.floor(row / 2) % 40, Math.floor(row / 80)];
    const isNamed = [0, 1].some((s) => lists[(b * 2 + s) * 2 + head]!.keys.includes(key));
    expect(rowOf(K!, row).every(isNamed ? Number.isFinite : Number.isNaN)).toBe(true);
  }
});

/** Lists of sequences of different lengths, whose dimensions are in a different order. */
const OF_LENGTHS = readFileSync(
  new URL('../../../../problems/attention_selected/problem.yaml', import.meta.url),
  'utf8',
)
  .replace('in: [B, S, Hkv, topk]', 'in: [S, B, topk]')
  .replace('selected[b s h k]', 'selected[s b k]')
  .replaceAll(', rows: selected', ', rows: lengths')
  .replace('{ keys: Skv }', '{ keys: Skv, lengths: lengths }')
  .replace('  O: {', '  lengths: { in: [B], dtype: int32, draw: { lengths: { most: Skv, page: 8 } } }\n  O: {')
  .replace('  o: ', '  key_lengths: lengths\n  o: ')
  .replace(/.*lists_of_next_head.*\n/, '');

test.each(SEEDS)('lists name only keys within the length of their sequence: seed %s', (seed) => {
  const problem = parseProblem(OF_LENGTHS, 'problem.yaml');
  const of = problemCase(problem, { B: 6, S: 4, H: 4, Hkv: 2, Skv: 30, topk: 30, D: 8 }, 'bf16');
  const { lengths, selected } = drawn(of, seed);
  const lists = listsOf(selected!, 30);
  expect(lists.every(({ keys }, list) => keys.every((key) => key < lengths![list % 6]!))).toBe(true);
  expect(Math.max(...lists.map(({ keys }) => keys.length))).toBe(30);
});

/** A problem with an input of 8 bits, whose rows have lengths. */
const ofDtype = (dtype: 'e4m3' | 'e5m2' | 'int8'): ProblemCase =>
  problemCase(
    parseProblem(
      `id: small
title: X
axes: { B: { about: b }, S: { about: s } }
tensors:
  X: { in: [B, S], dtype: ${dtype}, rows: lengths }
  lengths: { in: [B], dtype: int32, draw: { lengths: { most: S } } }
  Y: { out: [B], dtype: [fp16] }
reference: { op: own }
work: { flops: "B * S" }
`,
      'problem.yaml',
    ),
    { B: 6, S: 40 },
    'fp16',
  );

test.each([
  ['e4m3', 0x7f],
  ['e5m2', 0x7f],
  ['int8', 0x80],
] as const)('rows of %s that belong to no sequence hold the byte %i', (dtype, byte) => {
  const { X, lengths } = drawInputs(ofDtype(dtype), { seed: 'c0de', rule: { ...NORMAL, valueScale: 8 } });
  const expected = Array.from({ length: 6 * 40 }, (_, at) => at % 40 >= lengths![Math.floor(at / 40)]!);
  expect(Array.from(X!, (found) => found === byte)).toEqual(expected);
});

test.each([
  ['e4m3', 'largest', [-448, 448]],
  ['e5m2', 'largest', [-57_344, 57_344]],
  ['int8', 'largest', [-127, 127]],
  ['e4m3', 'subnormal', [-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7].map((steps) => steps / 512)],
  ['e5m2', 'subnormal', [-3, -2, -1, 0, 1, 2, 3].map((steps) => steps / 65_536)],
] as const)('drawn numbers of %s reach the ends of the dtype: %s', (dtype, v, wanted) => {
  const { X, lengths } = drawInputs(ofDtype(dtype), { seed: 'c0de', rule: { ...NORMAL, v }, evenLengths: true });
  const valueAt = valueReader(X!, dtype);
  expect(lengths!.every((length) => length === 40)).toBe(true);
  expect([...new Set(Array.from(X!, (_, at) => valueAt(at) + 0))].toSorted((a, b) => a - b)).toEqual(wanted);
});

test.each([
  ['e4m3', 2 ** -9, 2 ** 8],
  ['e5m2', 2 ** -16, 2 ** 15],
  ['int8', 1, 64],
] as const)('every_exponent of %s goes from its smallest number to half of its largest', (dtype, least, most) => {
  const rule = { ...NORMAL, v: 'every_exponent' as const };
  const { X } = drawInputs(ofDtype(dtype), { seed: 'c0de', rule, evenLengths: true });
  const valueAt = valueReader(X!, dtype);
  const values = Array.from(X!, (_, at) => valueAt(at));
  expect(Math.min(...values)).toBe(least);
  expect([Math.max(...values) > most / 2, Math.max(...values) <= most]).toEqual([true, true]);
});
