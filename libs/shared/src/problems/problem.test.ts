import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { FlashcoreError } from '../contract/errors.ts';
import { ELEMENT_DTYPES } from '../data/dtype.ts';
import {
  problemCase,
  axisViolations,
  bytesOf,
  caseValues,
  flopsOf,
  tensorBytes,
  tensorExtents,
} from './case-values.ts';
import { caseViolations, shapeOf } from '../kernels/shape.ts';
import { DEFAULT_PROBLEM, installedProblem, installedProblems } from './installed-problems.ts';
import { parseProblem } from './problem.ts';

const MATMUL = `id: grouped_matmul
title: C = A B for each group
axes:
  N: { default: K, about: columns of B }
  K: { default: 2 * M, about: inner }
  M: { about: rows of A }
  G: { about: groups }
attributes:
  transposed: { about: A is }
  mean: { value: 1 / sqrt(K), about: scale }
require:
  - { require: "K % 8 == 0", because: loads have 16 bytes }
tensors:
  A: { in: [G, M, K], dtype: same_as(C), role: q }
  B: { in: [G, K, N], dtype: same_as(A) }
  C: { out: [G, M, N], dtype: [fp16, bf16] }
reference: { op: own }
work: { flops: "2 * G * M * N * K * (transposed ? 2 : 1)" }
`;

test('a case has its defaults, in the order of their dependencies, and its tensors, FLOPs and bytes', () => {
  const problem = parseProblem(MATMUL, 'problem.yaml');
  const values = caseValues(problem, { G: 3, M: 32 });
  expect(values).toEqual({ G: 3, M: 32, K: 64, N: 64, transposed: 0, mean: 1 / 8 });
  expect(caseValues(problem, { G: 3, M: 32, N: 8, transposed: 1 })).toMatchObject({ K: 64, N: 8, transposed: 1 });
  expect(tensorExtents(problem, values, 'bf16')).toEqual([
    { name: 'A', direction: 'in', role: 'q', dims: [3, 32, 64], dtype: 'bf16' },
    { name: 'B', direction: 'in', role: 'v', dims: [3, 64, 64], dtype: 'bf16' },
    { name: 'C', direction: 'out', role: 'v', dims: [3, 32, 64], dtype: 'bf16' },
  ]);
  expect(problem.tensors.map(({ dtypes }) => dtypes.join())).toEqual(Array(3).fill('fp16,bf16'));
  expect(flopsOf(problem, values)).toBe(2 * 3 * 32 * 64 * 64);
  expect(bytesOf(problem, values, 'bf16')).toBe(2 * (3 * 32 * 64 + 3 * 64 * 64 + 3 * 32 * 64));
});

test.each([-1, 0, 1.5, 2 ** 31, 2 ** 63, Number.NaN])('refuses an extent of %d and names its axis', (extent) => {
  const problem = parseProblem(MATMUL, 'problem.yaml');
  expect(axisViolations(problem, { G: extent, M: 4 })).toEqual([
    { field: 'G', description: `must be an integer of 1 to 2147483647, got ${extent}` },
  ]);
});

test.each([
  [
    '2 * G * M',
    '1 / (M - 4) + M',
    'grouped_matmul: "1 / (M - 4) + M * N * K * (transposed ? 2 : 1)" is not a finite number',
  ],
  [
    '2 * G * M',
    '-2 * M',
    'grouped_matmul: work must be at least 0, got -512 flops and 256 bytes; correct it in problem.yaml',
  ],
  [
    '1 / sqrt(K)',
    '1 / (M - 4)',
    'grouped_matmul: "1 / (M - 4)" is not a finite number (Infinity) for M = 4; correct the',
  ],
  [
    'out: [G, M, N]',
    'out: [G, M, "N - 8"]',
    'grouped_matmul: C has the dimension N - 8: must be an integer of 1 to 2147483647',
  ],
])('with %s replaced by %s, a case without a fitting value is refused', (was, is, message) => {
  const problem = parseProblem(MATMUL.replace(was, is), 'problem.yaml');
  const found = axisViolations(problem, { G: 1, M: 4 });
  expect(found.map(({ field }) => field)).toEqual(['']);
  expect(found[0]?.description).toContain(message);
});

test('refuses a wrong extent that comes from a default', () => {
  const problem = parseProblem(MATMUL.replace('2 * M', 'M - 8'), 'problem.yaml');
  expect(axisViolations(problem, { G: 1, M: 4, N: 1 })).toEqual([
    { field: 'K', description: 'must be an integer of 1 to 2147483647, got -4' },
  ]);
});

test.each([
  ['in: [G, M, K]', 'in: [G, MM, K]', 14, 'tensors.A.in[1]', /unknown axis "MM" in "MM".*; add it to `axes`/],
  ['default: 2 * M', 'default: N', 4, 'axes.N.default', /defaults of N, K need each other: leave one without/],
  ['default: 2 * M', 'default: K', 4, 'axes.N.default', /defaults of N, K need each other/],
  ['default: 2 * M', 'default: -4', 5, 'axes.K.default', /must be an integer of 1 to 2147483647, got -4/],
  ['in: [G, K, N]', 'in: [G, K, 0]', 15, 'tensors.B.in[2]', /got 0/],
  [
    'in: [G, K, N]',
    'in: [9223372036854775808]',
    15,
    'tensors.B.in[0]',
    /got 9223372036854775808|got 922337203685477[0-9]+/,
  ],
  ['in: [G, K, N]', 'in: [1 / 0]', 15, 'tensors.B.in[0]', /got NaN/],
  ['in: [G, K, N]', 'in: [G], out: [G]', 15, 'tensors.B', /exactly one of `in` and `out`/],
  ['[fp16, bf16]', '[fp16, fp12]', 16, 'tensors.C.dtype', /same_as\(a tensor\) or a list of fp16, bf16, fp32/],
  ['[fp16, bf16]', 'same_as(B)', 14, 'tensors.A.dtype', /cycle \(A -> C -> B -> A\): give one of them a list/],
  ['same_as(A)', 'same_as(D)', 15, 'tensors.B.dtype', /unknown tensor "D": known are A, B, C/],
  ['same_as(A)', '{ same_as: D, e4m3: bf16 }', 15, 'tensors.B.dtype', /unknown tensor "D": known are A, B, C/],
  ['same_as(A)', '{ e4m3: bf16 }', 15, 'tensors.B.dtype', /\{ same_as: a tensor, e4m3: bf16 \}/],
  ['same_as(A)', '{ same_as: A, fp8: bf16 }', 15, 'tensors.B.dtype', /a list of fp16, bf16, fp32, e4m3, e5m2, int8/],
  [
    'op: own',
    'op: attentoin',
    17,
    'reference.op',
    /must be one of attention, attention_backward, merge, own, got "attentoin".*attention/,
  ],
  ['op: own', 'op: own, limit_s: 0', 17, 'reference.limit_s', /must be an integer of 1 to 300, got 0/],
  ['* (transposed ? 2', '* (transpose ? 2', 18, 'work.flops', /unknown axis "transpose"/],
  ['"K % 8 == 0"', '"K % 8 = 0"', 12, 'require[0].require', /equality is ==/],
  ['  G: { about', '  mean: { about', 10, 'attributes.mean', /name "mean" is taken by axes: choose another/],
  ['title:', 'titel:', undefined, '', /unknown key "titel".*title/],
])('a problem with %s replaced by %s is refused with file, line, key and remedy', (was, is, line, key, message) => {
  expect(MATMUL).toContain(was);
  const error = (() => {
    try {
      return parseProblem(MATMUL.replace(was, is), 'p/problem.yaml');
    } catch (thrown) {
      return thrown as FlashcoreError;
    }
  })();
  expect(error).toBeInstanceOf(FlashcoreError);
  expect(error).toMatchObject({ reason: 'INVALID_MANIFEST', metadata: { path: 'p/problem.yaml' } });
  const { message: text, violations } = error as FlashcoreError;
  expect(text).toMatch(message);
  if (line !== undefined) expect(text).toContain(`p/problem.yaml:${line}: ${key}`);
  expect(violations.map(({ field }) => field)).toContain(key);
});

const DECODE = `id: decode
title: a cache
axes:
  B: { about: sequences }
  H: { about: heads }
  S: { about: rows of a sequence }
  page: { about: rows of a page }
  pages: { about: pages }
  D: { about: columns }
attributes:
  scale: { value: 1 / sqrt(D), about: scale }
tensors:
  Q: { in: [B, H, D], dtype: [fp16, bf16], role: q }
  K: { in: [pages, page, H, D], dtype: same_as(Q), role: k, rows: table }
  V: { in: [pages, page, H, D], dtype: same_as(Q), rows: table }
  lengths: { in: [B], dtype: int32, draw: { lengths: { most: S, page: page } } }
  table: { in: [B, ceil(S / page)], dtype: int32, draw: { pages: { lengths: lengths, page: page, pool: pages } } }
  O: { out: [B, H, D], dtype: same_as(Q) }
  LSE: { out: [B, H], dtype: fp32, optional: true }
reference:
  op: attention
  q: Q[b h d]
  k: K[b s h d]
  v: V[b s h d]
  o: O[b h d]
  lse: LSE[b h]
  key_lengths: lengths
  page_table: table
work: { flops: 4 * B * H * S * D }
`;

test('tensors of a case have their own dtypes and rules, and optional ones exist only if declared', () => {
  const problem = parseProblem(DECODE, 'problem.yaml');
  const values = caseValues(problem, { B: 3, H: 2, S: 10, page: 4, pages: 9, D: 8 });
  const of = (declared: string[]) => tensorExtents(problem, values, 'bf16', new Set(declared));
  expect(of([]).map(({ name, dtype }) => [name, dtype])).toEqual([
    ['Q', 'bf16'],
    ['K', 'bf16'],
    ['V', 'bf16'],
    ['lengths', 'int32'],
    ['table', 'int32'],
    ['O', 'bf16'],
  ]);
  expect(of(['LSE']).at(-1)).toEqual({
    name: 'LSE',
    direction: 'out',
    role: 'v',
    dims: [3, 2],
    dtype: 'fp32',
    optional: true,
  });
  expect(of([]).map(({ draw, rows }) => draw ?? rows)).toEqual([
    undefined,
    { table: 'table', owners: [0], row: 1 },
    { table: 'table', owners: [0], row: 1 },
    { kind: 'lengths', most: 10, page: 4 },
    { kind: 'pages', of: 'lengths', page: 4, pool: 9 },
    undefined,
  ]);
});

/**
 * The same cache in FlashInfer's layout: the pages of all sequences in one list, and two columns of K in another
 * tensor.
 */
const FLAT = DECODE.replace(
  '  table: { in: [B, ceil(S / page)]',
  `  R: { in: [B, H, 2], dtype: same_as(Q), role: q }
  KR: { in: [pages, page, H, 2], dtype: same_as(Q), role: k, rows: table }
  begins: { in: [B + 1], dtype: int32, draw: { page_offsets: { lengths: lengths, page: page } } }
  last: { in: [B], dtype: int32, draw: { last_pages: { lengths: lengths, page: page } } }
  table: { in: [B * ceil(S / page)]`,
)
  .replace('q: Q[b h d]', 'q: Q | R[b h d]')
  .replace('k: K[b s h d]', 'k: K | KR[b s h d]')
  .replace('page_table: table', 'page_table: table\n  page_offsets: begins');

test("a one-dimensional table has the pages of all sequences, and an operand may join two tensors' columns", () => {
  const problem = parseProblem(FLAT, 'problem.yaml');
  const { operands, tables } = problem.operands;
  expect([operands.q, operands.k?.more, tables.page_offsets]).toEqual([
    { tensor: 'Q', more: 'R', axes: ['b', 'h', 'd'] },
    'KR',
    'begins',
  ]);
  const given = { B: 3, H: 2, S: 10, page: 4, pages: 10, D: 8 };
  expect(axisViolations(problem, given)).toEqual([]);
  const drawn = tensorExtents(problem, caseValues(problem, given), 'bf16').filter(({ draw }) => draw);
  expect(drawn.map(({ name, dims, draw }) => [name, dims, draw])).toEqual([
    ['lengths', [3], { kind: 'lengths', most: 10, page: 4 }],
    ['begins', [4], { kind: 'page_offsets', of: 'lengths', page: 4 }],
    ['last', [3], { kind: 'last_pages', of: 'lengths', page: 4 }],
    ['table', [9], { kind: 'pages', of: 'lengths', page: 4, pool: 10 }],
  ]);
});

test.each([
  ['B + 1', 'B + 2', /begins of decode must have 4 elements, one more than lengths, got 5/],
  ['last: { in: [B]', 'last: { in: [B + 1]', /last of decode must have 3 elements, as many as lengths, got 4/],
  [
    'most: S, page: page',
    'most: S, multiple_of: page',
    /S must be a multiple of 4, as all lengths of decode are, got 10/,
  ],
  ['[B * ceil(S / page)]', '[B * 2]', /table of decode must have 9 pages for 3 sequences, got 6/],
])('a case is refused if %s is %s', (was, is, message) => {
  expect(FLAT).toContain(was);
  const given = { B: 3, H: 2, S: 10, page: 4, pages: 10, D: 8 };
  expect(axisViolations(parseProblem(FLAT.replace(was, is), 'problem.yaml'), given)[0]?.description).toMatch(message);
});

test.each([
  ['\n  page_offsets: begins', '', 'reference.page_table', /table has one dimension: name where its sequences begin/],
  ['page_offsets: begins', 'page_offsets: last', 'reference.page_offsets', /`draw: \{ page_offsets: … \}`, got "last"/],
  [
    'draw: { page_offsets: { lengths: lengths, page: page }',
    'draw: { page_offsets: { lengths: lengths, page: 8 }',
    'reference.page_offsets',
    /must be a page_table of one dimension, with the lengths and the page/,
  ],
  ['[B * ceil(S / page)]', '[B, ceil(S / page)]', 'reference.page_offsets', /must be a page_table of one dimension/],
  [
    'lengths: lengths, page: page } } }\n  last',
    'lengths: last, page: page } } }\n  last',
    'tensors.begins.draw.page_offsets',
    /must be an input with `draw: \{ lengths: … \}`, got "last"/,
  ],
  ['most: S, page: page', 'sum: S, multiple_of: page', 'tensors.lengths.draw.lengths.multiple_of', /goes with `most`/],
  ['in: [B + 1]', 'in: [B, 1]', 'tensors.begins.draw', /one dimension, the sequences and one more, got 2/],
  ['Q | R[b h d]', 'Q | S[b h d]', 'reference.q', /unknown tensor "S"/],
  [
    'Q | R[b h d]',
    'Q | K[b h d]',
    'reference.q',
    /K must be an input of every case with the dtype and the dimensions of Q/,
  ],
  ['R: { in: [B, H, 2], dtype: same_as(Q)', 'R: { in: [B, H, 2], dtype: fp32', 'reference.q', /R must be an input/],
  ['v: V[b s h d]', 'v: V | KR[b s h d]', 'reference.v', /only q and k of attention can be two tensors/],
])('a problem with a flat cache and %s replaced by %s is refused', (was, is, key, message) => {
  expect(FLAT).toContain(was);
  const read = () => parseProblem(FLAT.replace(was, is), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`: ${key}: `);
});

/** The problem with cases that may have sinks and a bias. */
const WITH_SINKS = DECODE.replace('attributes:\n', 'attributes:\n  sinks: { about: sinks }\n  bias: { about: bias }\n')
  .replace(
    '  lengths: {',
    '  sink: { in: [H], dtype: fp32, role: sink, when: sinks }\n  mask: { in: [B, S, S], dtype: same_as(Q), role: bias, when: bias }\n  lengths: {',
  )
  .replace('  lse: LSE', '  sinks: sink[h]\n  bias: mask[b s k]\n  lse: LSE');

test('inputs with `when` exist and take memory only in cases that have them', () => {
  const problem = parseProblem(WITH_SINKS, 'problem.yaml');
  const inputsOf = (given: Record<string, number>) => {
    const values = caseValues(problem, { B: 3, H: 2, S: 1000, page: 1000, pages: 3, D: 8, ...given });
    const tensors = tensorExtents(problem, values, 'bf16');
    return [tensors.map(({ name }) => name).join(' '), tensorBytes(tensors)];
  };
  const usual = 2 * 2 * (3 * 2 * 8) + 2 * 2 * (3 * 1000 * 2 * 8) + 4 * (3 + 3);
  expect([inputsOf({}), inputsOf({ sinks: 1 }), inputsOf({ sinks: 1, bias: 1 })]).toEqual([
    ['Q K V lengths table O', usual],
    ['Q K V sink lengths table O', usual + 4 * 2],
    ['Q K V sink mask lengths table O', usual + 4 * 2 + 2 * 3 * 1000 ** 2],
  ]);
  const violations = (bias: number) =>
    caseViolations(problem, shapeOf({ B: 1, H: 1, S: 50_000, page: 50_000, pages: 1, D: 1, bias }), 'shape');
  expect([violations(0), violations(1)]).toEqual([
    [],
    [{ field: 'shape', description: 'must have at most 2147483647 elements a tensor, got 2500000000' }],
  ]);
});

const ATTENTION = readFileSync(new URL('../../../../problems/attention/problem.yaml', import.meta.url), 'utf8');

test('a problem names its baselines; without the key it has none', () => {
  expect(installedProblem('attention').baselines).toEqual(['sdpa']);
  expect(parseProblem(ATTENTION.replace('baselines: [sdpa]', ''), 'problem.yaml').baselines).toEqual([]);
});

test.each([
  ['[sdpa]', '[spda]', 'baselines[0]', /must be one of sdpa, got "spda"/],
  ['[sdpa]', 'sdpa', 'baselines', /must be a list/],
  ['[sdpa]', '[sdpa, sdpa]', 'baselines', /at most 1/],
  [
    'o: "O[b h s d]"',
    'o: "O[b s h d]"',
    'baselines[0]',
    /sdpa computes `op: attention` of Q, K, V and O as \[b h s d\].*: leave it out/,
  ],
  ['Q: { in: [B, H, S, D]', 'Q: { in: [H, B, S, D]', 'baselines[0]', /with Q: \{ in: \[B, H, S, D\] \}: leave it out/],
])('baselines with %s replaced by %s are refused', (was, is, key, message) => {
  expect(ATTENTION).toContain(was);
  const read = () => parseProblem(ATTENTION.replace(was, is), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`: ${key}: `);
});

const MERGE = readFileSync(new URL('../../../../problems/merge/problem.yaml', import.meta.url), 'utf8');

test.each([
  [
    '  lse_parts: "LSE_splits[p b h s]"\n',
    '',
    'reference',
    /merge needs lse_parts: add `lse_parts: TENSOR\[p b h s\]`/,
  ],
  ['O_splits[p b s h d]', 'O_splits[k b s h d]', 'reference.o_parts', /o_parts has parts: name their dimension p/],
  ['O_splits[p b s h d]', 'O_splits[p p s h d]', 'reference.o_parts', /each of b, h, s, d, k and p at most once/],
  ['O_splits[p b s h d]', 'O_splits[p b s d h]', 'reference.o_parts', /the last dimension must be d/],
  ['LSE_splits[p b h s]', 'LSE_splits[p b h d]', 'reference.lse_parts', /one number a row: leave d and k out/],
  ['"O[b s h d]"', '"O[p s h d]"', 'reference.o', /only o_parts and lse_parts have the dimension p/],
  ['"O[b s h d]"', '"O_splits[p b s h d]"', 'reference.o', /merge writes o: make O_splits an output/],
  ['lse: "LSE[b h s]"', 'q: "O_splits[b s h d]"', 'reference.q', /merge has no q: it has o_parts, lse_parts, o, lse/],
  ['op: merge', 'op: merge\n  lse_base: 10', 'reference.lse_base', /must be 2/],
])('the problem merge with %s replaced by %s is refused', (was, is, key, message) => {
  expect(MERGE).toContain(was);
  const read = () => parseProblem(MERGE.replace(was, is), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`: ${key}: `);
});

const SELECTED = readFileSync(new URL('../../../../problems/attention_selected/problem.yaml', import.meta.url), 'utf8');

test.each([
  ['{ keys: Skv }', '{ keys: "Skv - 12" }', 'must be an integer of 1 to 2147483647, got -4'],
  ['{ keys: Skv }', '{ keys: "Skv / 3" }', 'got 2.666'],
  ['{ keys: Skv }', '{ keys: "Skv * 1000000000" }', ''],
])('with %s replaced by %s, a case with 8 keys is refused', (was, is, message) => {
  const of = parseProblem(SELECTED.replace(was, is).replaceAll(', rows: selected', ''), 'problem.yaml');
  const shape = shapeOf({ B: 1, S: 1, H: 2, Hkv: 1, Skv: 8, topk: 4, D: 8 });
  expect(caseViolations(of, shape, 'shape').map(({ description }) => description)).toEqual([
    expect.stringContaining(message),
  ]);
});

test.each([
  ['selected[b s h k]', 'selected[b s h d]', 'reference.selected', /selected has one key a place: leave d out/],
  ['selected[b s h k]', 'selected[b s k h]', 'reference.selected', /must be k: the keys of a list are adjacent/],
  ['selected[b s h k]', 'selected[b s h]', 'reference.selected', /a letter for each of the 4 dimensions/],
  [
    '"selected[b s h k]"',
    '"Q[b s h k]"',
    'reference.selected',
    /must be an input with `draw: \{ selected: … \}`, got "Q"/,
  ],
  ['"Q[b s h d]"', '"selected[b s h d]"', 'reference.q', /selected is drawn as lists of keys: name it as selected/],
  ['"Q[b s h d]"', '"Q[b s h k]"', 'reference.q', /only bias and selected have the dimension k/],
  ['{ keys: Skv }', '{ keys: Skw }', 'tensors.selected.draw.selected.keys', /unknown axis "Skw" in "Skw".*Skv/],
  ['{ keys: Skv }', '{ key: Skv }', 'tensors.selected.draw.selected', /unknown key "key".*keys/],
  ['{ keys: Skv }', '{ keys: Skv, queries: 0 }', 'tensors.selected.draw.selected.queries', /integer of 1 to/],
  ['{ keys: Skv }', '{ keys: Skv, lengths: Q }', 'tensors.selected.draw.selected', /`draw: \{ lengths: … \}`, got "Q"/],
  [
    'O: { out',
    'lengths: { in: [B], dtype: int32, draw: { lengths: { most: Skv } } }\n  O: { out',
    'reference.selected',
    /its lists must end at key_lengths: write `draw: \{ selected: \{ keys, lengths: lengths \} \}`/,
  ],
  ['K: { in: [B, Skv,', 'K: { in: [B, topk,', 'tensors.K.rows', /one dimension "Skv", as selected has it, got 0/],
  ['K: { in: [B, Skv, Hkv,', 'K: { in: [B, Skv, B,', 'tensors.K.rows', /one dimension "B", as selected has it, got 2/],
  ['ignored: true', 'ignored: 1', 'mutants.selection_ignored.ignored', /must be true/],
  [
    'tensor: selected, ignored',
    'tensor: Q, ignored',
    'mutants.selection_ignored.ignored',
    /attention needs Q: name one of selected, sinks/,
  ],
  [
    'tensor: selected, ignored: true',
    'tensor: selected, times: 2',
    'mutants.selection_ignored.times',
    /use one of entries, shift, last, ignored/,
  ],
  [
    'set: { topk: "ceil(topk / 2)" }',
    'set: { Skv: 1 }',
    'mutants.half_of_list_left_out.set.Skv',
    /K cannot be cut along Skv/,
  ],
])('selected keys with %s replaced by %s are refused', (was, is, key, message) => {
  expect(SELECTED).toContain(was);
  const lengths = is.includes('most: Skv') ? 'op: attention\n  key_lengths: lengths' : 'op: attention';
  const read = () => parseProblem(SELECTED.replace(was, is).replace('op: attention', lengths), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`: ${key}: `);
});

test.each([
  ['in: [B, S, Hkv, topk]', 'in: [B, S, H, topk]', /selected of attention_selected must have 2 heads of K, got 4/],
  ['in: [B, S, Hkv, topk]', 'in: [B, Skv, Hkv, topk]', /must have 9 queries, got 30/],
  ['in: [B, S, Hkv, topk]', 'in: [S, S, Hkv, topk]', /must have 3 sequences, got 9/],
  ['{ keys: Skv }', '{ keys: Skv, queries: 4 }', /must have 3 lists for each 4 queries, got 9/],
  ['{ keys: Skv }', '{ keys: Skv + 1 }', /must select among the 30 rows of K, got 31/],
])('with %s replaced by %s, a case is refused because its lists do not fit', (was, is, message) => {
  // Rows of K and V belong to lists only if their dimensions have the same names.
  const text = SELECTED.replaceAll(', rows: selected', '')
    .replace(/.*lists_of_next.*\n/g, '')
    .replace(was, is);
  const given = { B: 3, S: 9, H: 4, Hkv: 2, Skv: 30, topk: 8, D: 64 };
  expect(axisViolations(parseProblem(text, 'problem.yaml'), given)[0]?.description).toMatch(message);
});

test('the FLOPs of selected keys are those of full lists, and keys that no list names add no traffic', () => {
  const problem = installedProblem('attention_selected');
  const workOf = (given: Record<string, number>) => {
    const values = caseValues(problem, { B: 2, S: 1, H: 8, Hkv: 2, Skv: 1000, topk: 10, D: 64, ...given });
    return { flops: flopsOf(problem, values), bytes: bytesOf(problem, values, 'fp16') };
  };
  const queries = 2 * 2 * 8 * (64 + 64);
  const [keys, lists] = [2 * 2 * 2 * (64 + 64), 4 * 2 * 2];
  expect(workOf({})).toEqual({ flops: 2 * 2 * 8 * 10 * 128, bytes: queries + 10 * keys + 10 * lists });
  expect(workOf({ topk: 4000 })).toEqual({
    flops: 2 * 2 * 8 * 1000 * 128,
    bytes: queries + 1000 * keys + 4000 * lists,
  });
  // Lists with 5,000 random choices among 1,000 keys contain nearly every key.
  const many = workOf({ S: 500 });
  expect(many.flops).toBe(500 * 2 * 2 * 8 * 10 * 128);
  expect((many.bytes - 500 * (queries + 10 * lists)) / keys).toBeCloseTo((5000 * 1000) / 6000);
});

test('the gradient of sinks needs sinks that every case has', () => {
  const text = readFileSync(new URL('../../../../problems/attention_backward/problem.yaml', import.meta.url), 'utf8');
  const written = (sinks: string) =>
    text
      .replace('  dQ: { out:', `${sinks}  dSinks: { out: [H], dtype: fp32 }\n  dQ: { out:`)
      .replace('  d_o: ', `${sinks && '  sinks: "sink[h]"\n'}  d_sinks: "dSinks[h]"\n  d_o: `);
  const sinks = (when: string): string => `  sink: { in: [H], dtype: fp32, role: sink${when} }\n`;
  const message = /reference\.d_sinks: it is the gradient of sinks that every case has/;
  expect(() => parseProblem(written(''), 'p.yaml')).toThrow(message);
  expect(() => parseProblem(written(sinks(', when: causal')), 'p.yaml')).toThrow(message);
  expect(parseProblem(written(sinks('')), 'p.yaml').operands.operands.d_sinks?.tensor).toBe('dSinks');
});

test.each([
  ['when: sinks', 'when: sink', 'tensors.sink.when', /unknown axis "sink".*sinks/],
  ['O: { out: [B, H, D], ', 'O: { out: [B, H, D], when: sinks, ', 'tensors.O.when', /only an input has `when`/],
  ['[B], dtype: int32', '[B], when: sinks, dtype: int32', 'tensors.lengths.when', /every case has its int32 inputs/],
  ['role: q }', 'role: q, when: sinks }', 'reference.q', /attention needs q in every case: leave `when` out of Q/],
  ['sink[h]', 'sink[d]', 'reference.sinks', /sinks has one number a head: write `TENSOR\[h\]`/],
  ['[H], dtype: fp32', '[H], dtype: same_as(Q)', 'reference.sinks', /sinks is read as fp32: write `dtype: fp32`/],
  ['mask[b s k]', 'mask[b k s]', 'reference.bias', /the last dimension must be k/],
  ['mask[b s k]', 'mask[b s d]', 'reference.bias', /bias has one number a key: leave d out/],
  ['k: K[b s h d]', 'k: K[b k h d]', 'reference.k', /only bias and selected have the dimension k/],
  ['LSE[b h]', 'LSE[b k]', 'reference.lse', /lse has one number a row: leave d and k out/],
])('a problem with sinks and %s replaced by %s is refused with key and remedy', (was, is, key, message) => {
  expect(WITH_SINKS).toContain(was);
  const read = () => parseProblem(WITH_SINKS.replace(was, is), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`${key}: `);
});

test('minimum traffic may be less than all tensors, which are still allocated', () => {
  const bytes = 'work: { bytes: dtype_bytes * B * H * D, flops';
  const problem = parseProblem(DECODE.replace('work: { flops', bytes), 'problem.yaml');
  const values = caseValues(problem, { B: 3, H: 2, S: 10, page: 4, pages: 9, D: 8 });
  expect([bytesOf(problem, values, 'bf16'), bytesOf(problem, values, 'fp32')]).toEqual([2 * 48, 4 * 48]);
  // Bytes of Q and O, K and V, lengths and table.
  const all = 2 * (2 * 48 + 2 * 9 * 4 * 2 * 8) + 4 * (3 + 9);
  expect(tensorBytes(tensorExtents(problem, values, 'bf16'))).toBe(all);
  expect(bytesOf(parseProblem(DECODE, 'problem.yaml'), values, 'bf16')).toBe(all);
});

test('refuses a problem whose traffic is zero', () => {
  const bytes = 'work: { bytes: dtype_bytes * (S - 10), flops';
  const problem = parseProblem(DECODE.replace('work: { flops', bytes), 'problem.yaml');
  const refused = (S: number) =>
    caseViolations(problem, shapeOf({ B: 3, H: 2, S, page: 4, pages: 9, D: 8 }), 'shape').map(
      (each) => each.description,
    );
  expect([refused(11), refused(10)]).toEqual([
    [],
    ['work.bytes must be above 0, got 0: correct problem.yaml of decode'],
  ]);
});

test('refuses a cache without room for all sequences', () => {
  const problem = parseProblem(DECODE, 'problem.yaml');
  expect(axisViolations(problem, { B: 3, H: 2, S: 10, page: 4, pages: 8, D: 8 })).toEqual([
    { field: '', description: 'pages must be at least 9, the pages of all sequences, got 8' },
  ]);
});

test.each([
  [
    'LSE: { out: [B, H], dtype: fp32',
    'LSE: { out: [B, H], dtype: int32',
    19,
    'tensors.LSE.dtype',
    /must be fp16, bf16, fp32, e4m3, e5m2, int8, got int32/,
  ],
  [
    'dtype: int32, draw: { lengths: { most: S, page: page } }',
    'dtype: int32',
    16,
    'tensors.lengths',
    /needs a rule: add `draw/,
  ],
  [
    '[B], dtype: int32',
    '[B], dtype: fp32',
    16,
    'tensors.lengths.draw',
    /only an int32 input has a rule: write `dtype: int32`/,
  ],
  ['most: S, page', 'most: S, sum: S, page', 16, 'tensors.lengths.draw.lengths', /exactly one of `most` and `sum`/],
  ['{ lengths: { most', '{ length: { most', 16, 'tensors.lengths.draw', /unknown key "length".*lengths/],
  [
    '[B], dtype: int32',
    '[B, H], dtype: int32',
    16,
    'tensors.lengths.draw',
    /must have one dimension, the sequences, got 2/,
  ],
  ['lengths: lengths, page', 'lengths: Q, page', 17, 'tensors.table.draw.pages', /got "Q": name one of lengths/],
  ['pool: pages', 'pool: pagez', 17, 'tensors.table.draw.pages.pool', /unknown axis "pagez"/],
  [
    'K: { in: [pages, page',
    'K: { in: [B, page',
    14,
    'tensors.K.rows',
    /one dimension "pages", as table has it, got 0: write it/,
  ],
  ['role: k, rows: table', 'role: k, rows: Q', 14, 'tensors.K.rows', /must be an input with `draw: .*, got "Q"/],
  ['O: { out: [B, H, D], ', 'O: { out: [B, H, D], rows: table, ', 18, 'tensors.O.rows', /only an input has rows/],
  ['role: q }', 'role: q, optional: true }', 13, 'tensors.Q.optional', /only an output can be optional/],
  ['role: q }', 'role: q, tolerance: strict }', 13, 'tensors.Q.tolerance', /only an output has a tolerance/],
  ['role: q }', 'role: q, rounds: 1 }', 13, 'tensors.Q.rounds', /only an output is rounded/],
  ['  q: Q[b h d]\n', '', 21, 'reference', /attention needs q: add `q: TENSOR\[b h s d\]`/],
  ['q: Q[b h d]', 'q: Q[b h x]', 22, 'reference.q', /such as Q\[b h s d\], got "Q\[b h x\]"/],
  ['q: Q[b h d]', 'q: Q[b b d]', 22, 'reference.q', /each of b, h, s, d, k and p at most once/],
  ['q: Q[b h d]', 'q: Q[b d]', 22, 'reference.q', /a letter for each of the 3 dimensions of Q, got 2/],
  ['q: Q[b h d]', 'q: Q[b d h]', 22, 'reference.q', /the last dimension must be d/],
  ['q: Q[b h d]', 'q: P[b h d]', 22, 'reference.q', /unknown tensor "P"/],
  ['q: Q[b h d]', 'q: O[b h d]', 22, 'reference.q', /attention reads q: make O an input/],
  [
    'lse: LSE[b h]',
    'd_q: LSE[b h]',
    26,
    'reference.d_q',
    /attention has no d_q: it has q, k, v, o, sinks, alibi_slopes, bias, selected, lse/,
  ],
  [
    '  lse: LSE[b h]\n',
    '',
    19,
    'tensors.LSE',
    /attention does not compute it: name it in `reference` as one of o, lse/,
  ],
  [
    'key_lengths: lengths',
    'key_lengths: Q',
    27,
    'reference.key_lengths',
    /must be an input with `draw: \{ lengths: … \}`, got "Q"/,
  ],
  ['key_lengths: lengths', 'key_lengths: table', 27, 'reference.key_lengths', /`draw: \{ lengths: … \}`, got "table"/],
  ['lengths: { most: S', 'lengths: { sum: S', 17, 'tensors.table.draw.pages', /lengths with `most`.*`sum` of lengths/],
  [
    'lse: LSE[b h]',
    'lse: LSE[b h]\n  lse_base: 10',
    27,
    'reference.lse_base',
    /must be 2, or no key for base e, got 10/,
  ],
  ['o: O[b h d]\n  lse: LSE[b h]', 'o: O[b h d]\n  lse_base: 2', 26, 'reference.lse_base', /it is the base of lse/],
  ['op: attention', 'op: own', 22, 'reference.q', /a reference of its own reads tensors by name: leave it out/],
])(
  'a problem with a paged cache and %s replaced by %s is refused with file, line, key and remedy',
  (was, is, line, key, message) => {
    expect(DECODE).toContain(was);
    const read = () => parseProblem(DECODE.replace(was, is), 'p/problem.yaml');
    expect(read).toThrow(message);
    expect(read).toThrow(`p/problem.yaml:${line}: ${key}: `);
  },
);

test('every installed problem can be read, and its folder has its id', () => {
  expect(installedProblems()).toContain(DEFAULT_PROBLEM);
  for (const id of installedProblems()) expect(installedProblem(id).id).toBe(id);
});

test('refuses a value that contains itself, with its line', () => {
  const read = () => parseProblem('id: a\ntitle: &a { x: *a }\n', 'p/problem.yaml');
  expect(read).toThrow('p/problem.yaml: line 2: not usable YAML: the value "&a" contains itself');
});

const MUTANTS = `mutants:
  scaled: { set: { mean: "2 * mean", K: "K - 1" }, about: the mean is doubled }
  in_e4m3: { tensor: A, round: e4m3, about: A in 8 bits }
  next_group: { tensor: B, shift: G, about: the next group }
  ragged: { tensor: C, unwritten: row, about: a ragged end }
`;
const withMutants = (was: string, is: string): string =>
  MATMUL.replace('reference:', `${MUTANTS.replace(was, is)}reference:`);

test('parseProblem() reads mutants with their expressions and dimensions', () => {
  const { mutants } = parseProblem(withMutants('', ''), 'problem.yaml');
  expect(
    mutants.map(({ change }) =>
      change.kind === 'set' ? change.values.map(({ name, value }) => `${name}: ${value.text}`) : change,
    ),
  ).toEqual([
    ['mean: 2 * mean', 'K: K - 1'],
    { tensor: 'A', kind: 'round', to: 'e4m3' },
    { tensor: 'B', kind: 'shift', dim: 0 },
    { tensor: 'C', kind: 'unwritten', part: 'row' },
  ]);
});

test.each([
  [
    'mean: "2',
    'means: "2',
    18,
    'mutants.scaled.set.means',
    /unknown axis or attribute "means" \(did you mean "mean"\?\)/,
  ],
  [
    'K: "K - 1"',
    'M: "M - 1"',
    18,
    'mutants.scaled.set.M',
    /the output C has the axis M: set one that only inputs have/,
  ],
  ['"K - 1"', '"J - 1"', 18, 'mutants.scaled.set.K', /unknown axis "J"/],
  ['tensor: A', 'tensor: Q', 19, 'mutants.in_e4m3.tensor', /unknown tensor "Q": known are A, B, C/],
  ['shift: G', 'shift: M', 20, 'mutants.next_group.shift', /B has no dimension "M": name one of G, K, N/],
  ['tensor: C', 'tensor: A', 21, 'mutants.ragged.unwritten', /A is an input: name an output/],
  ['round: e4m3', 'round: e4m4', 19, 'mutants.in_e4m3.round', /must be one of fp16, bf16, e4m3, e5m2, got "e4m4"/],
  ['round: e4m3', 'round: e4m3, times: 2', 19, 'mutants.in_e4m3', /must have exactly one of `round`, `flush`/],
  [
    'round: e4m3',
    'entries: entry',
    19,
    'mutants.in_e4m3.entries',
    /A holds floating-point numbers: name an int32 input/,
  ],
  ['round: e4m3', 'times: J', 19, 'mutants.in_e4m3.times', /unknown axis "J"/],
  ['tensor: A, ', '', 19, 'mutants.in_e4m3', /must have exactly one of `set` and `tensor`/],
  ['round: e4m3', 'rund: e4m3', 19, 'mutants.in_e4m3', /unknown key "rund"/],
])('a mutant with %s replaced by %s is refused with file, line, key and remedy', (was, is, line, key, message) => {
  expect(MUTANTS).toContain(was);
  const read = () => parseProblem(withMutants(was, is), 'p/problem.yaml');
  expect(read).toThrow(message);
  expect(read).toThrow(`p/problem.yaml:${line}: ${key}`);
});

test('mutants of tables change their entries', () => {
  const mutant = (act: string) =>
    parseProblem(
      DECODE.replace('reference:', `mutants:\n  wrong: { tensor: lengths, ${act}, about: a mistake }\nreference:`),
      'p/problem.yaml',
    ).mutants[0]!.change;
  expect(mutant('entries: "max(0, entry - 1)"')).toMatchObject({
    tensor: 'lengths',
    kind: 'entries',
    value: { text: 'max(0, entry - 1)' },
  });
  expect(() => mutant('entries: "J - entry"')).toThrow(/mutants.wrong.entries: unknown axis "J"/);
  expect(() => mutant('round: fp16')).toThrow(/mutants.wrong.round: lengths is int32: use one of entries, shift, last/);
});

test('a symmetry of values names no table', () => {
  const read = (symmetry: string) => () =>
    parseProblem(DECODE.replace('reference:', `symmetries:\n  - ${symmetry}\nreference:`), 'p/problem.yaml');
  expect(read('{ flip: B }')).toThrow(
    /p\/problem.yaml:\d+: symmetries\[0\].flip: .* the int32 numbers of lengths, table: name/,
  );
  expect(read('{ double: B, of: [lengths] }')).toThrow(/symmetries\[0\].of: .* numbers of lengths: name/);
  expect(read('{ permute: B }')().symmetries).toMatchObject([
    { act: 'permute', place: expect.stringMatching(/^p\/problem.yaml:\d+: symmetries\[0\]$/) as string },
  ]);
});

const SMALL = `id: small
title: a product of 8 bits
axes: { M: { about: m }, K: { about: k } }
tensors:
  A: { in: [M, K], dtype: [bf16, e4m3, int8] }
  B: { in: [K], dtype: { same_as: A, int8: e5m2 } }
  C: { out: [M], dtype: { same_as: B, e4m3: bf16, int8: fp32 } }
symmetries: [{ double: M, of: [A, C] }, { flip: M, of: [A, C] }, { double: K, of: [B] }]
reference: { op: own }
work: { flops: "2 * M * K" }
`;

test.each([
  ['bf16', ['bf16', 'bf16', 'bf16'], 2 * (12 + 4 + 3), ['double M', 'flip M', 'double K']],
  ['e4m3', ['e4m3', 'e4m3', 'bf16'], 12 + 4 + 2 * 3, ['double M', 'flip M', 'double K']],
  // Twice an int8 number may not fit in int8.
  ['int8', ['int8', 'e5m2', 'fp32'], 12 + 4 + 4 * 3, ['flip M', 'double K']],
] as const)('a kernel of %s has tensors of %j', (dtype, dtypes, bytes, symmetries) => {
  const found = problemCase(parseProblem(SMALL, 'problem.yaml'), { M: 3, K: 4 }, dtype);
  expect(found.tensors.map((tensor) => tensor.dtype)).toEqual(dtypes);
  expect(found.bytes).toBe(bytes);
  expect(found.symmetries.map(({ act, axis }) => `${act} ${axis}`)).toEqual(symmetries);
});

/** Dtypes that the oracle reads for an operand, of all that a tensor can name. */
test.each([
  ['attention', 'bias', 'bias_values', 'fp16 bf16 fp32'],
  ['attention', 'q', 'Q', 'fp16 bf16 fp32 e4m3 e5m2 int8'],
  ['attention', 'k', 'K', 'fp16 bf16 fp32 e4m3 e5m2 int8'],
  ['attention', 'v', 'V', 'fp16 bf16 fp32 e4m3 e5m2 int8'],
  ['attention_backward', 'd_o', 'dO', 'fp16 bf16 fp32 e4m3 e5m2'],
  ['attention_backward', 'o', 'O', 'fp16 bf16 fp32 e4m3 e5m2'],
  ['merge', 'o_parts', 'O_splits', 'fp16 bf16 fp32 e4m3 e5m2'],
  ['merge', 'lse_parts', 'LSE_splits', 'fp16 bf16 fp32'],
])('%s reads %s as the dtypes that its oracle can carry, and refuses all others', (id, operand, tensor, readable) => {
  const text = readFileSync(new URL(`../../../../problems/${id}/problem.yaml`, import.meta.url), 'utf8');
  const written = new RegExp(String.raw`^(  ${tensor}:\s*\{\s*in: \[.*?\],\s*dtype: )(\[.*?\]|[^,}]*[^,} ])`, 'm');
  expect(text).toMatch(written);
  const refused = ELEMENT_DTYPES.filter((dtype) => {
    // Tensors that follow this one, such as same_as(Q), keep a list of their own.
    const others = text.replaceAll(`same_as(${tensor})`, '[fp16, bf16]');
    try {
      parseProblem(others.replace(written, `$1${dtype}`), 'problem.yaml');
      return false;
    } catch (error) {
      if (dtype !== 'int32')
        expect(String(error)).toMatch(
          new RegExp(`${operand} is read as .*${tensor} may be ${dtype}|minus infinity, which ${dtype}`),
        );
      return true;
    }
  });
  expect(refused).toEqual(ELEMENT_DTYPES.filter((dtype) => !readable.split(' ').includes(dtype)));
});
