import { expect, test } from 'vitest';
import { casesSource, installedProblem, installedProblems } from '../problems/installed-problems.ts';
import { parseProblem } from '../problems/problem.ts';
import { parseCases } from './cases.ts';
import { planIfTaken } from './launch-plan.ts';
import { parseManifest } from './manifest.ts';
import { draftOfProblem } from './problem-draft.ts';
import { valuesOf } from './shape.ts';

test.each(installedProblems().filter((id) => id !== 'attention'))(
  'a drafted kernel of %s has a valid manifest and takes the first parity case',
  (id) => {
    const problem = installedProblem(id);
    const { text, path } = casesSource(problem);
    const [shape] = parseCases(text, path, problem).sets.parity;
    const files = draftOfProblem({ id: 'mine', problem, taken: valuesOf(shape!), fractions: new Set() });
    expect(Object.keys(files).toSorted()).toEqual(['NOTES.md', 'kernel.yaml', 'mine.cu']);
    const manifest = parseManifest(files['kernel.yaml']!, 'kernel.yaml');
    expect(manifest.problem.id).toBe(id);
    const plan = planIfTaken(manifest, { parameters: {} }, shape!);
    expect(plan?.launches[0]?.entry).toBe('mine');
  },
);

const ODD = `id: odd
title: 'Y = X * gain
  \\ of a row'
axes:
  rows: { about: rows }
  half: { about: columns }
  groups: { default: rows, about: groups of rows }
attributes:
  gain: { about: a factor }
  shift: { default: 2, about: a shift }
  scale: { value: 1 / half, about: a scale }
tensors:
  X: { in: [rows, half], dtype: [e4m3, bf16] }
  lengths: { in: [rows], dtype: int32, draw: { lengths: { most: half } } }
  bias: { in: [half], dtype: fp32, when: shift - 2 }
  Y: { out: [rows, 'ceil(half / 2)'], dtype: { same_as: X, e4m3: bf16 } }
  Z: { out: [rows], dtype: fp32 }
reference: { op: own }
work: { flops: rows * half }
`;

test('a drafted kernel names what its case needs, in the order of its arguments', () => {
  const problem = parseProblem(ODD, 'problem.yaml');
  const draft = (taken: Record<string, number>) =>
    draftOfProblem({ id: 'mine', problem, taken, fractions: new Set(['gain']) });
  const usual = draft({ rows: 2, half: 4, gain: 0.5 });
  expect(usual['kernel.yaml']).toContain(`math: { inputs: e4m3, accumulate: fp32 }
launches:
  - entry: mine
    # A thread for each element of Y.
    grid: ["ceil(rows * (ceil(half / 2)) / 256)", 1, 1]
    block: [256, 1, 1]
    # Only cases in which groups, shift have their defaults are run.
    # Arguments of these names let it take others, too.
    arguments:
      - X
      - lengths
      - Y
      - Z
      - rows
      - half
      - { float32: gain }
      - scale
`);
  expect(usual['mine.cu']).toContain(`#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" __global__ void mine(
    const __nv_fp8_e4m3* X,  // [rows, half]
    const int* lengths,      // [rows]
    __nv_bfloat16* Y,        // [rows, ceil(half / 2)], to be written
    float* Z,                // [rows], to be written
    int rows,                // rows
    int half_,               // columns
    float gain,              // a factor
    float scale)             // a scale
{`);
  expect(usual['mine.cu']!.split('\n')[0]).toBe('// Y = X * gain of a row');
  const other = draft({ rows: 2, half: 4, groups: 1, gain: 0.5, shift: 3 })['kernel.yaml']!;
  expect(other).not.toContain('Only cases');
  expect(other.match(/^ {6}- .*$/gm)!.map((line) => line.trim().slice(2))).toEqual([
    'X',
    'lengths',
    'bias',
    'Y',
    'Z',
    'rows',
    'half',
    'groups',
    '{ float32: gain }',
    'shift',
    'scale',
  ]);
});
