/**
 * Tests imports of SOL-ExecBench's definitions, with fixed answers instead of the sandbox's.
 * test/e2e/import-program.test.ts runs the references.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseCases, parseProblem, valuesOf } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { testFolders } from '../testing/test-folders.ts';
import { importPrograms } from './import-programs.ts';

const folderOf = testFolders();

const DEFINITION = {
  name: 'row_norm',
  description: 'Scale each row by its size.',
  axes: {
    batch: { type: 'var', description: 'rows' },
    width: { type: 'const', value: 64 },
    twice: { type: 'expr', expression: '2 * batch' },
  },
  inputs: {
    x: { shape: ['twice', 'width'], dtype: 'bfloat16', description: null },
    weight: { shape: ['width'], dtype: 'float32' },
    eps: { shape: null, dtype: 'float32' },
  },
  outputs: { y: { shape: ['twice', 'width'], dtype: 'bfloat16' }, size: { shape: ['twice', '1'], dtype: 'float32' } },
  reference: "import os\nos.system('touch pwned')\n\ndef run(x, weight, eps):\n    return x, x\n",
  custom_inputs_entrypoint: null,
};
const workload = (batch: number, eps?: number) => ({
  uuid: 'u',
  axes: { batch },
  inputs: { x: { type: 'random' }, ...(eps !== undefined && { eps: { type: 'scalar', value: eps } }) },
});
const WORKLOADS = [workload(2, 1e-5), workload(100, 1e-5), workload(7, 0.5)];
const DESCRIBED = {
  axes: [{ name: 'batch', value: 100, draw: 'count' }],
  tensors: [
    { kind: 'input', name: 'x', dims: ['2 * batch', '64'] },
    { kind: 'input', name: 'weight', dims: ['64'] },
    { kind: 'output', name: 'out_0', dims: ['2 * batch', '64'] },
    { kind: 'output', name: 'out_1', dims: ['2 * batch', '1'] },
  ],
  cases: [{ batch: 3 }],
  canonical: { batch: 100 },
  named: [{ batch: 2 }, { batch: 100 }],
  ignored: [],
  distributions: ['normal'],
  weightScale: 1,
  rms: 1,
  largest: 4,
  roundingError: 1e-7,
};

function setOf(definition: unknown, workloads: readonly unknown[] | string = WORKLOADS): string {
  const lines = typeof workloads === 'string' ? workloads : workloads.map((each) => JSON.stringify(each)).join('\n');
  return folderOf({
    'L1/row_norm/definition.json': definition,
    ...(lines !== '' && { 'L1/row_norm/workload.jsonl': lines }),
  });
}

async function imported(from: string, answer: object = DESCRIBED) {
  const asked: string[] = [];
  const to = path.join(folderOf({}), 'problems');
  const results = await importPrograms({
    from,
    form: 'sol-execbench',
    to,
    describe: (files) => {
      asked.push(...files.map((file) => readFileSync(file, 'utf8')));
      return Promise.resolve(files.map(() => JSON.stringify(answer)).join('\n'));
    },
  });
  return { results, asked };
}

test("a described definition becomes a problem with the definition's names and dtypes", async () => {
  const { results, asked } = await imported(setOf(DEFINITION));
  expect(results).toEqual([
    expect.objectContaining({ file: 'L1/row_norm/definition.json', name: 'L1/row_norm', dtype: 'bf16' }),
  ]);
  // The third workload has another eps, which the problem treats as a constant, so it is left out.
  expect(asked.map((text) => JSON.parse(text) as unknown)).toEqual([
    {
      source: DEFINITION.reference.trimEnd(),
      axes: { width: 64, twice: '2 * batch' },
      shapes: { x: ['twice', 'width'], weight: ['width'] },
      arguments: { x: null, weight: null, eps: 1e-5 },
      workloads: [{ batch: 2 }, { batch: 100 }],
    },
  ]);
  const textOf = (name: string) => readFileSync(path.join(results[0]!.folder!, name), 'utf8');
  const problem = parseProblem(textOf('problem.yaml'), 'problem.yaml');
  const { sets } = parseCases(textOf('cases.yaml'), 'cases.yaml', problem);
  expect([problem.id, problem.tensors.map(({ name }) => name), sets['sol_execbench']?.map(valuesOf)]).toEqual([
    'l1_row_norm',
    ['x', 'weight', 'y', 'size'],
    DESCRIBED.named,
  ]);
  for (const line of ['dtype: [ bf16 ], role: q', 'weight: { in: [ "64" ], dtype: fp32', 'dtype: same_as(x) }'])
    expect(textOf('problem.yaml')).toContain(line);
  expect(textOf('reference.py')).toContain('arguments={"x": None, "weight": None, "eps": 0.00001},');
});

test('inputs of 8 bits keep their dtypes, and the first one is the dtype of kernels', async () => {
  const inputs = {
    ...DEFINITION.inputs,
    x: { shape: ['twice', 'width'], dtype: 'float8_e4m3fn' },
    weight: { shape: ['width'], dtype: 'float8_e5m2' },
  };
  const { results } = await imported(setOf({ ...DEFINITION, inputs }));
  expect(results).toEqual([expect.objectContaining({ dtype: 'e4m3' })]);
  const text = readFileSync(path.join(results[0]!.folder!, 'problem.yaml'), 'utf8');
  const { tensors } = parseProblem(text, 'problem.yaml');
  expect(tensors.map(({ name, dtypes, ownDtype }) => [name, ownDtype ?? dtypes])).toEqual([
    ['x', ['e4m3']],
    ['weight', 'e5m2'],
    ['y', 'bf16'],
    ['size', 'fp32'],
  ]);
});

const withAxis = (axis: unknown) => ({ ...DEFINITION, axes: { ...DEFINITION.axes, twice: axis } });
const withInput = (input: unknown) => ({ ...DEFINITION, inputs: { ...DEFINITION.inputs, weight: input } });

test.each([
  [
    'an integer input',
    withInput({ shape: ['width'], dtype: 'int32' }),
    /inputs\.weight\.dtype: must be float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, got int32/,
  ],
  ['a 4-bit input', withInput({ shape: ['width'], dtype: 'float4_e2m1' }), /inputs\.weight\.dtype/],
  [
    'an 8-bit output',
    { ...DEFINITION, outputs: { ...DEFINITION.outputs, y: { shape: ['twice', 'width'], dtype: 'float8_e4m3fn' } } },
    /outputs\.y\.dtype: must be float16, bfloat16, float32, got float8_e4m3fn/,
  ],
  ['an unknown dtype', withInput({ shape: ['width'], dtype: 'float33' }), /inputs\.weight\.dtype: must be one of/],
  [
    'a tensor without dimensions',
    withInput({ shape: [], dtype: 'float32' }),
    /inputs\.weight\.shape: must have at least one axis/,
  ],
  [
    'an unknown axis',
    withInput({ shape: ['other'], dtype: 'float32' }),
    /inputs\.weight\.shape\[0\]: unknown axis "other"/,
  ],
  [
    'a path as an axis',
    withInput({ shape: ['../x'], dtype: 'float32' }),
    /inputs\.weight\.shape\[0\]: must be the name of an axis/,
  ],
  [
    'a call in an expression',
    withAxis({ type: 'expr', expression: "__import__('os').system('touch pwned')" }),
    /axes\.twice\.expression: must be an expression/,
  ],
  [
    'a huge constant',
    withAxis({ type: 'const', value: 1e30 }),
    /axes\.twice\.value: must be an integer of 1 to 2147483647/,
  ],
  ['constraints', { ...DEFINITION, constraints: ['batch > 3'] }, /constraints: nothing here draws "batch > 3"/],
  [
    'only constant axes',
    {
      ...DEFINITION,
      axes: {
        batch: { type: 'const', value: 2 },
        width: { type: 'const', value: 2 },
        twice: { type: 'const', value: 4 },
      },
    },
    /axes: all are constants/,
  ],
  ['no reference', { ...DEFINITION, reference: undefined }, /reference: must be a text/],
  ['a key that appears twice', `{"name": "a", "name": "b"}`, /the key "name" appears twice/],
  ['deep nesting', '['.repeat(20_000), /not (valid|usable) JSON: it is nested too deeply/],
])('a definition with %s is refused with file and key, and reaches no sandbox', async (_, definition, message) => {
  const { results, asked } = await imported(setOf(definition));
  expect(results.map(({ folder, reason }) => [folder, reason])).toEqual([[undefined, expect.stringMatching(message)]]);
  expect(results[0]!.reason).toMatch(/^L1\/row_norm\/definition\.json/);
  expect([asked, existsSync('pwned')]).toEqual([[], false]);
});

test.each([
  ['no workloads', '', /^L1\/row_norm\/definition\.json: workload\.jsonl: must be beside the definition/],
  [
    'workloads without extents',
    [{ ...workload(1), axes: {} }],
    /workload\.jsonl: no workload gives an extent to each of batch/,
  ],
  ['workloads without a number for eps', [workload(4)], /inputs\.eps: a number, and no workload gives its value/],
  [
    'a huge extent in a workload',
    [workload(1e12, 1)],
    /workload\.jsonl, line 1: axes\.batch|workload\.jsonl, line 1:1: axes\.batch/,
  ],
  [
    'an input of unknown type in a workload',
    [{ ...workload(4, 1), inputs: { x: { type: 'pickle' } } }],
    /workload\.jsonl, line 1(:1)?: inputs\.x\.type: must be one of/,
  ],
])('a definition with %s is refused and reaches no sandbox', async (_, workloads, message) => {
  const { results, asked } = await imported(setOf(DEFINITION, workloads));
  expect([results[0]?.reason, asked]).toEqual([expect.stringMatching(message), []]);
});

test("an answer whose tensors are not the definition's is refused", async () => {
  const [input, , output] = DESCRIBED.tensors;
  const answers = [
    { ...DESCRIBED, tensors: [input, output] },
    { ...DESCRIBED, tensors: [{ ...input, name: 'z' }, ...DESCRIBED.tensors.slice(1)] },
  ];
  const reasons = [];
  for (const answer of answers) reasons.push((await imported(setOf(DEFINITION), answer)).results[0]?.reason);
  expect(reasons).toEqual([
    'L1/row_norm/definition.json: outputs: must be 2, and run returns 1 tensors',
    'L1/row_norm/definition.json: z: the definition has no such tensor',
  ]);
});
