/** tools/read_triton.py, which reads Python with Triton kernels without running it. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { draftOfTriton, parseManifest, type TritonFunction } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const FILE = join(ROOT, 'test/fixtures/triton/tuned/scale.py');
const noPython = missing('python3');

const read = (...args: string[]) =>
  spawnSync('python3', ['-I', join(ROOT, 'tools/read_triton.py'), ...args], { encoding: 'utf8' });

test.skipIf(noPython)('a function is read with the definitions that it uses, and its file is not run', () => {
  const { stdout, stderr, status } = read(FILE, 'scaled');
  expect(status, stderr).toBe(0);
  const found = JSON.parse(stdout) as TritonFunction;
  expect(found.python).toBe(`import triton
import triton.language as tl
from triton import jit


SCALE: tl.constexpr = 3


@jit
def triple(x):
    return x * SCALE


@triton.jit
def scaled(X, Y, n, BLOCK: tl.constexpr, FAST: tl.constexpr = True):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, triple(tl.load(X + at, mask=at < n)), mask=at < n)
`);
  expect(found.options).toEqual({ BLOCK: [64, 128, 256], NUM_WARPS: [4, 8], NUM_STAGES: [1, 2, 3] });
  const draft = draftOfTriton(found, { id: 'scaled', source: 'kernel.py', problem: 'softmax' });
  const { parameters, constants, launches } = parseManifest(draft, 'kernel.yaml');
  expect(Object.entries(parameters).map(([name, { values }]) => [name, values])).toEqual(Object.entries(found.options));
  expect(constants.map(({ name, value }) => [name, value.text])).toEqual([['FAST', '1']]);
  // Two pointers to scratch memory are added to those of the function.
  expect(launches[0]!.arguments.map(({ kind }) => kind)).toEqual(['tensor', 'tensor', 'int32', 'null', 'null']);
});

test.skipIf(noPython).each<[string, string[], RegExp]>([
  ['several kernels and no --entry', [FILE], /--entry: give one of its kernels: unrelated, scaled/],
  ['an unknown function', [FILE, 'launch'], /must have launch under @triton.jit; it has triple, unrelated, scaled/],
  ['no Python', [join(ROOT, 'package.json')], /package.json: --entry.*it has none|must be Python/],
  ['machine code', [join(ROOT, 'test/fixtures/triton/ptx.tar.zst')], /must be a readable text/],
  ['a file of 100 MB', [process.execPath], /must be at most 4194304 bytes/],
])('%s is an error', (_, args, words) => {
  const { status, stderr } = read(...args);
  expect([status, stderr]).toEqual([1, expect.stringMatching(words)]);
});
