/**
 * Tests imports of problems that are Python programs, with fixed answers instead of the sandbox's.
 * test/e2e/import-program.test.ts runs the programs.
 */
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseCases, parseProblem, valuesOf } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { mutated, numbers, testFolders } from '../testing/test-folders.ts';
import { importPrograms } from './import-programs.ts';

const folderOf = testFolders();

const SOURCE = "import os\nos.system('touch pwned')\n\ndef get_init_inputs():\n    return []\n";
/** The sandbox's description of a linear layer. */
const LINEAR = {
  axes: [
    { name: 'batch_size', value: 1024, draw: 'count' },
    { name: 'features', value: 8192, draw: 'width' },
  ],
  tensors: [
    { kind: 'input', name: 'x', dims: ['batch_size', 'features'] },
    { kind: 'weight', name: 'gemm.weight', dims: ['64', 'features'] },
    { kind: 'weight', name: 'gemm.bias', dims: ['64'] },
    { kind: 'output', name: 'out', dims: ['batch_size', '64'] },
  ],
  cases: [
    { batch_size: 3, features: 16 },
    { batch_size: 5, features: 32 },
  ],
  canonical: { batch_size: 1024, features: 4096 },
  ignored: [],
  distributions: ['normal', 'few'],
  weightScale: 0.125,
  rms: 2,
  largest: 9,
  roundingError: 1e-6,
};

const imported = (from: string, lines: readonly string[], to = path.join(folderOf({}), 'problems')) =>
  importPrograms({ from, form: 'kernelbench', to, describe: () => Promise.resolve(lines.join('\n')) });

test('a described program becomes a problem that a runner reads', async () => {
  const [result] = await imported(folderOf({ 'level1/7_Linear.py': SOURCE }), [JSON.stringify(LINEAR)]);
  expect(result).toMatchObject({ file: 'level1/7_Linear.py', name: '7_Linear', opType: 'kernelbench' });
  const textOf = (name: string) => readFileSync(path.join(result!.folder!, name), 'utf8');
  const problem = parseProblem(textOf('problem.yaml'), 'problem.yaml');
  const { sets, tolerances, distributions } = parseCases(textOf('cases.yaml'), 'cases.yaml', problem);
  expect([problem.id, problem.tensors.map(({ name, role }) => `${name} ${role}`)]).toEqual([
    'level1_7_linear',
    ['x q', 'gemm_weight k', 'gemm_bias k', 'out v'],
  ]);
  expect(sets['kernelbench']?.map(valuesOf)).toEqual([{ batch_size: 1024, features: 8192 }]);
  expect(sets.emulated.map(valuesOf)).toEqual([{ batch_size: 5, features: 32 }]);
  // atol is in units of the outputs' root mean square, which is 2.
  expect(tolerances['parity']).toMatchObject({ fp16: { atol: 0.02 }, fp32: { atol: 2e-4 } });
  expect(distributions['normal']).toMatchObject({ keyScale: 0.125 });
  expect(textOf('reference.py').startsWith(SOURCE)).toBe(true);
  expect(textOf('reference.py')).toContain('weights={"gemm.weight": "gemm_weight", "gemm.bias": "gemm_bias"},');
});

test('each program has a line, and the reason for a refusal names file and key', async () => {
  const from = folderOf({ 'a.py': SOURCE, 'b.py': SOURCE, 'c.py': SOURCE, 'large.py': SOURCE + '#'.repeat(70_000) });
  symlinkSync(path.join(from, 'a.py'), path.join(from, 'link.py'));
  writeFileSync(path.join(from, 'setup.py'), 'not a problem');
  const results = await imported(from, [
    JSON.stringify({ refused: 'get_inputs: input 1 has dtype int64: must be floating-point' }),
    JSON.stringify({ ...LINEAR, rms: 'much' }),
  ]);
  expect(results.map(({ reason }) => reason)).toEqual([
    'a.py: get_inputs: input 1 has dtype int64: must be floating-point',
    expect.stringMatching(/^b\.py: rms: /),
    'c.py: the program: gave no answer in the sandbox',
    expect.stringMatching(/^large\.py: cannot be read \(more than 60 KiB\)/),
  ]);
});

test.each([
  [
    'a path as the name of an axis',
    { axes: [{ name: '../x', value: 2, draw: 'count' }] },
    /axes\.0\.name: must be a C identifier/,
  ],
  ['Python in a weight', { tensors: [{ kind: 'weight', name: 'x"]: 1}, print(1)', dims: ['2'] }] }, /tensors\.0\.name/],
  [
    'code in a formula',
    { tensors: [{ kind: 'input', name: 'x', dims: ['constructor("x")'] }] },
    /tensors\.0\.dims\.0: must be a formula/,
  ],
  ['an unknown axis', { tensors: [{ kind: 'input', name: 'x', dims: ['other'] }] }, /other/],
  ['an extent above the limit', { canonical: { batch_size: 2 ** 40, features: 1 } }, /canonical\.batch_size/],
  [
    'two tensors with one name',
    { tensors: LINEAR.tensors.map((each) => ({ ...each, name: 'same' })) },
    /same: another tensor/,
  ],
  ['an unknown key', { more: 1 }, /more/],
])('an answer with %s is refused', async (_, change, message) => {
  const [result] = await imported(folderOf({ 'it.py': SOURCE }), [JSON.stringify({ ...LINEAR, ...change })]);
  expect(result?.reason).toMatch(message);
  expect([result?.reason?.includes('it'), result?.folder]).toEqual([true, undefined]);
});

test('an existing folder stays unchanged', async () => {
  const to = folderOf({});
  const from = folderOf({ 'level1/7_Linear.py': SOURCE });
  await imported(from, [JSON.stringify(LINEAR)], to);
  const [again] = await imported(from, [JSON.stringify(LINEAR)], to);
  expect(again?.reason).toMatch(/level1_7_linear is there already: remove it/);
});

test('mutated answers become problems or reasons with the file, and no part of a program is run', async () => {
  const below = numbers(43);
  const line = JSON.stringify(LINEAR);
  const lines = Array.from({ length: 200 }, () => mutated(line, below).replaceAll('\n', ' '));
  const from = folderOf(Object.fromEntries(lines.map((_, index) => [`p${1000 + index}.py`, SOURCE])));
  const to = path.join(folderOf({}), 'problems');
  const results = await imported(from, lines, to);
  expect(results).toHaveLength(200);
  for (const { reason, name } of results) if (reason !== undefined) expect(reason).toContain(name);
  expect(results.filter(({ reason }) => reason !== undefined).length).toBeGreaterThan(50);
  expect(readdirSync(to).every((name) => /^\d+_p\d+$|^[a-z][a-z0-9_]*$/.test(name))).toBe(true);
  expect(existsSync('pwned')).toBe(false);
});
