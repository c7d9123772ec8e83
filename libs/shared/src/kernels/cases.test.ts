import { expect, test } from 'vitest';
import { parseProblem } from '../problems/problem.ts';
import { parseCases } from './cases.ts';

const PROBLEM = parseProblem(
  `id: cut
title: Y is X without its first 200 columns
axes: { rows: { about: rows }, N: { about: columns } }
require: [{ require: rows % 2 == 0, because: rows come in pairs }]
tensors: { X: { in: [rows, N], dtype: [fp16] }, Y: { out: [rows, N - 200], dtype: same_as(X) } }
reference: { op: own }
work: { flops: rows * N }
`,
  'problem.yaml',
);
const cases = (parity: string, probe = '{ rows: 2, N: 256 }') =>
  parseCases(
    `tolerances: { parity: { atol: 0, rtol: 0 } }
defaults: { set: parity, tolerance: parity, seeds: 1, distribution: normal }
distributions: { normal: { q: normal, k: normal, v: normal, about: normal } }
probes: { shapes: [${probe}], distributions: {} }
sets:
  parity:
    - { rows: 4, N: 256 }
    - ${parity}
  canonical: [{ rows: 2, N: 256 }]
  emulated: [{ rows: 2, N: 256 }]
`,
    'cases.yaml',
    PROBLEM,
  );

test.each([
  [
    ['{ rows: 2, N: 100 }'],
    'cases.yaml:8: sets.parity[1]: cut: Y has the dimension N - 200: must be an integer of 1 to 2147483647, got -100; correct it in problem.yaml, or `require` another case',
  ],
  [['{ rows: 3, N: 256 }'], 'cases.yaml:8: sets.parity[1]: cut requires rows % 2 == 0, because rows come in pairs'],
  [['{ rows: 2, N: 512 }', '{ rows: 5, N: 256 }'], 'cases.yaml:4: probes.shapes[0]: cut requires rows % 2 == 0'],
])('parseCases() refuses a case that the problem cannot have, with its line: %j', (written, message) => {
  expect(() => cases(...(written as [string]))).toThrow(message);
});

test('parseCases() takes cases that the problem can have', () => {
  expect(cases('{ rows: 2, N: 201 }').sets.parity).toHaveLength(2);
});
