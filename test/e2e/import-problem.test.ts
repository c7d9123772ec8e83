/**
 * A definition of FlashInfer-Bench as a problem of a repository: its cases find mistakes, and a kernel is judged by it.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { edited, inFull } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const LIMIT_MS = 240_000;
const NAME = 'gqa_paged_decode_h6_kv1_d128_ps64';
const FIXTURES = join(ROOT, 'apps/tui/src/problem-import/fixtures');
const FIXTURE = join(FIXTURES, `${NAME}.json`);
const home = new Home();
const repository = join(home.path, 'kernels');
const dataSet = join(home.path, 'trace');
const kernel = join(repository, 'flashinfer_decode');

beforeAll(() => {
  mkdirSync(repository);
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  for (const folder of ['definitions/gqa_paged', 'workloads/gqa_paged'])
    mkdirSync(join(dataSet, folder), { recursive: true });
  cpSync(FIXTURE, join(dataSet, 'definitions/gqa_paged', `${NAME}.json`));
  const workload = {
    definition: NAME,
    workload: {
      axes: { batch_size: 3, len_indptr: 4, num_kv_indices: 6, num_pages: 9 },
      inputs: { sm_scale: { type: 'scalar', value: 0.08838834764831843 } },
    },
  };
  writeFileSync(join(dataSet, 'workloads/gqa_paged', `${NAME}.jsonl`), `${JSON.stringify(workload)}\n`);
  cpSync(join(ROOT, 'test/fixtures/flashinfer_decode'), kernel, { recursive: true });
});
afterAll(() => home[Symbol.asyncDispose]());

const faTui = (...args: string[]) => home.faTui(args, { cwd: repository, timeoutMs: LIMIT_MS });

test('a data set is imported, and its cases find all mutants', { timeout: LIMIT_MS }, () => {
  const { exitCode, stdout } = faTui('problem', 'import', dataSet, '--to', 'problems');
  expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`imported      ${NAME}: 1 of 1 workloads`)]);
  const check = faTui('problem', 'check', NAME, '--dtype', 'bf16');
  expect([check.exitCode, check.stdout]).toEqual([0, expect.stringMatching(/the cases find all 1\d mutants/)]);
});

const FORMS = JSON.parse(readFileSync(join(FIXTURES, 'forms.json'), 'utf8')) as { name: string }[];

test.each(inFull(FORMS, ({ name }) => name === 'mla_prefill_causal'))(
  'the cases of an imported $name find all mutants',
  { timeout: LIMIT_MS },
  (form) => {
    const file = join(home.path, `${form.name}.json`);
    writeFileSync(file, JSON.stringify(form));
    expect(faTui('problem', 'import', file, '--to', 'problems', '--any-reference')).toMatchObject({ exitCode: 0 });
    const check = faTui('problem', 'check', form.name, '--dtype', 'bf16');
    expect([check.exitCode, check.stdout]).toEqual([0, expect.stringMatching(/the cases find all \d+ mutants/)]);
  },
);

test("a kernel with the definition's arguments solves the imported problem", { timeout: LIMIT_MS }, () => {
  const { exitCode, stdout } = faTui('verify', './flashinfer_decode', '--seeds', '1');
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/batch_size +kv_len[^]* 7 +200 +✓ pass/)]);
  expect(faTui('bench', './flashinfer_decode').exitCode).toBe(0);
  expect(faTui('verify', './flashinfer_decode', '--seeds', '1', '--cases', 'workloads').stdout).toContain(
    'batch_size=3,kv_len=128',
  );
});

test('a definition of gemm provides shapes for a kernel of that problem', { timeout: LIMIT_MS }, () => {
  const tensor = (...shape: string[]) => ({ shape, dtype: 'float16' });
  const definition = {
    ...{ name: 'gemm_n64_k96', op_type: 'gemm' },
    axes: { M: { type: 'var' }, N: { type: 'const', value: 64 }, K: { type: 'const', value: 96 } },
    inputs: { A: tensor('M', 'K'), B: tensor('N', 'K') },
    outputs: { C: tensor('M', 'N') },
    reference: 'import torch\n\ndef run(A, B):\n    C = torch.matmul(A, B.T)\n    return C',
  };
  const workload = (M: number) =>
    JSON.stringify({ definition: definition.name, workload: { axes: { M }, inputs: {} } });
  for (const folder of ['definitions/gemm', 'workloads/gemm']) mkdirSync(join(home.path, folder), { recursive: true });
  writeFileSync(join(home.path, 'definitions/gemm/gemm_n64_k96.json'), JSON.stringify(definition));
  writeFileSync(join(home.path, 'workloads/gemm/gemm_n64_k96.jsonl'), [5, 70].map(workload).join('\n'));
  const { stdout } = faTui(
    'problem',
    'import',
    join(home.path, 'definitions/gemm/gemm_n64_k96.json'),
    '--to',
    'problems',
  );
  expect(stdout).toContain(
    'gemm_n64_k96: is the installed problem gemm, 2 of 2 workloads in problems/gemm_n64_k96.shapes',
  );
  // The command from the last line of the answer.
  expect(stdout).toContain("sed 's/^/--shape=/' problems/gemm_n64_k96.shapes | xargs fa-tui verify KERNEL");
  const lines = readFileSync(join(repository, 'problems/gemm_n64_k96.shapes'), 'utf8').trim().split('\n');
  const verified = faTui(
    'verify',
    join(ROOT, 'examples/kernels/gemm_tiles'),
    ...lines.map((line) => `--shape=${line}`),
  );
  expect([verified.exitCode, verified.stdout]).toEqual([
    0,
    expect.stringMatching(/all cases: K=96, N=64\n +M +verdict[^]* 70 +✓ pass/),
  ]);
});

test.each([
  ['an LSE in base e', ' * LOG2E', ''],
  ['a last page that is read to its end', 'kv_last_page_len[sequence]', 'page_size'],
])("the imported problem's cases detect a kernel with %s", { timeout: LIMIT_MS }, (_, was, is) => {
  const file = join(kernel, 'flashinfer_decode.cu');
  const source = readFileSync(file, 'utf8');
  writeFileSync(file, edited(source, was, is));
  const { exitCode, stdout } = faTui('verify', './flashinfer_decode', '--seeds', '1');
  writeFileSync(file, source);
  expect([exitCode, stdout]).toEqual([1, expect.stringContaining('WRONG RESULT')]);
});

test('if nothing can be imported the reasons are reported, also as JSON', () => {
  const sampling = edited(readFileSync(FIXTURE, 'utf8'), '"op_type": "gqa_paged"', '"op_type": "sampling"');
  writeFileSync(join(home.path, 'sampling.json'), sampling);
  const args = ['problem', 'import', join(home.path, 'sampling.json'), '--to', join(home.path, 'none')];
  const said = home.faTui(args);
  expect([said.exitCode, said.stdout]).toEqual([
    1,
    expect.stringMatching(
      /not imported {2}sampling\.json: op_type: "sampling" is none of gqa_paged.*\n\n0 of 1 imported/s,
    ),
  ]);
  expect(JSON.parse(home.faTui([...args, '--json']).stdout)).toMatchObject({
    imported: 0,
    definitions: [{ name: NAME, opType: 'sampling', file: 'sampling.json' }],
  });
});
