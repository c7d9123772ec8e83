import { expect, test } from 'vitest';
import { FlashcoreError } from '../contract/errors.ts';
import { axisViolations, bytesOf, caseValues, flopsOf, tensorExtents } from './case-values.ts';
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

test('a case has its defaults in the order that they need, and tensors, FLOPs and bytes of them', () => {
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

test.each([-1, 0, 1.5, 2 ** 31, 2 ** 63, Number.NaN])('an extent of %d is refused with its axis', (extent) => {
  const problem = parseProblem(MATMUL, 'problem.yaml');
  expect(axisViolations(problem, { G: extent, M: 4 })).toEqual([
    { field: 'G', description: `wanted an integer of 1 to 2147483647, found ${extent}` },
  ]);
});

test('an extent that a default gives is refused too', () => {
  const problem = parseProblem(MATMUL.replace('2 * M', 'M - 8'), 'problem.yaml');
  expect(axisViolations(problem, { G: 1, M: 4, N: 1 })).toEqual([
    { field: 'K', description: 'wanted an integer of 1 to 2147483647, found -4' },
  ]);
});

test.each([
  ['in: [G, M, K]', 'in: [G, MM, K]', 14, 'tensors.A.in[1]', /unknown axis "MM" in "MM".*; add it to `axes`/],
  ['default: 2 * M', 'default: N', 4, 'axes.N.default', /defaults of N, K need each other: leave one without/],
  ['default: 2 * M', 'default: K', 4, 'axes.N.default', /defaults of N, K need each other/],
  ['default: 2 * M', 'default: -4', 5, 'axes.K.default', /wanted an integer of 1 to 2147483647, found -4/],
  ['in: [G, K, N]', 'in: [G, K, 0]', 15, 'tensors.B.in[2]', /found 0/],
  [
    'in: [G, K, N]',
    'in: [9223372036854775808]',
    15,
    'tensors.B.in[0]',
    /found 9223372036854775808|found 922337203685477[0-9]+/,
  ],
  ['in: [G, K, N]', 'in: [1 / 0]', 15, 'tensors.B.in[0]', /found NaN/],
  ['in: [G, K, N]', 'in: [G], out: [G]', 15, 'tensors.B', /exactly one of `in` and `out`/],
  ['[fp16, bf16]', '[fp16, fp12]', 16, 'tensors.C.dtype', /same_as\(a tensor\) or a list of fp16, bf16, fp32/],
  ['[fp16, bf16]', 'same_as(B)', 14, 'tensors.A.dtype', /circle \(A -> C -> B -> A\): give one of them a list/],
  ['same_as(A)', 'same_as(D)', 15, 'tensors.B.dtype', /unknown tensor "D": known are A, B, C/],
  [
    'op: own',
    'op: attentoin',
    17,
    'reference.op',
    /wanted one of attention, attention_backward, own, found "attentoin".*attention/,
  ],
  ['* (transposed ? 2', '* (transpose ? 2', 18, 'work.flops', /unknown axis "transpose"/],
  ['"K % 8 == 0"', '"K % 8 = 0"', 12, 'require[0].require', /equality is ==/],
  ['  G: { about', '  mean: { about', 10, 'attributes.mean', /name "mean" is taken by axes: choose another/],
  ['title:', 'titel:', undefined, '', /unknown key "titel".*title/],
])('%s as %s is refused with file, line, key and remedy', (was, is, line, key, message) => {
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

test('every installed problem can be read, and is in the folder of its id', () => {
  expect(installedProblems()).toContain(DEFAULT_PROBLEM);
  for (const id of installedProblems()) expect(installedProblem(id).id).toBe(id);
});
