/** tools/rival_objects.py and the summaries of lab/gpu_host/programs/decode_rivals.py, without PyTorch and a GPU. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const pythonTest = test.skipIf(missing('python3'));
let folder = '';
// Not on import: without python3 all tests are skipped, and then nothing would remove the folder.
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-rival-objects-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function python(...args: string[]): string {
  const { stdout, stderr, status } = spawnSync('python3', ['-B', ...args], { cwd: ROOT, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return stdout;
}

/** The arguments of the functions that a source exports, by the ending of their names: '' for FUNCTION. */
function parametersIn(source: string): Record<string, { name: string; type: string }[]> {
  const text = readFileSync(join(ROOT, 'rivals', source), 'utf8');
  return Object.fromEntries(
    [...text.matchAll(/extern "C" \w+ FUNCTION(\w*)\(([^)]*)\)/g)].map(([, ending, parameters]) => [
      ending!.toLowerCase(),
      parameters!.split(',').map((each) => {
        const words = each.trim().replace('const ', '').split(/\s+/);
        return { type: words[0]!, name: words[1]! };
      }),
    ]),
  );
}

type Call = readonly [name: string, values: readonly (number | string)[]];

const kindOf = (value: number | string): string =>
  typeof value === 'number' ? 'int' : (/^(?:float|long)(?= )/.exec(value)?.[0] ?? 'pointer').replace('long', 'int64_t');

/** A recorded call as an object of the parameters' names, after each value was found to have its parameter's type. */
function named(calls: readonly Call[], name: string, source: string, ending = '') {
  const [, values] = calls.find(([each]) => each === name)!;
  const parameters = parametersIn(source)[ending]!;
  expect(values.map(kindOf)).toEqual(parameters.map(({ type }) => (type.endsWith('*') ? 'pointer' : type)));
  return Object.fromEntries(parameters.map((parameter, index) => [parameter.name, values[index]]));
}

const recorded = () => JSON.parse(python('lab/gpu_host/record_rival_calls.py')) as Call[];
const SIZES = { B: 2, H: 12, Hkv: 3, S: 1 };
const FLASHINFER = {
  ...{ q: 'q', k: 'k', v: 'v', o: 'o', ends: 'ends there', pages: 'pages there', rows_of_last: 'rows of last there' },
  ...{ floats: 'zeros (1000,) uint8', ints: 'zeros (2000,) uint8', plan: 'out' },
  ...{ page: 16, scale: 'float 0.125', stream: 'stream' },
};

pythonTest("calls of FlashAttention-3's object have the arguments of its functions", () => {
  const [calls, sms] = [recorded(), { multiprocessors: 132 }];
  const tensors = { q: 'q', k: 'k', v: 'v', o: 'o', lse: 'empty (2, 12, 1) fp32', scratch: 'empty (77,) fp32' };
  const contiguous = { ...SIZES, Skv: 100, ...sms };
  const source = 'flash_attention_3/decode.cu';
  expect(named(calls, 'fa3_decode_bf16_64_floats', source, '_floats')).toEqual(contiguous);
  expect(named(calls, 'fa3_decode_bf16_64', source)).toEqual({
    ...{ ...tensors, ...contiguous, semaphore: 'zeros (1,) int32', scale: 'float 0.125', stream: 'stream' },
  });
  const paged = { ...SIZES, page: 16, pages_of_sequence: 7, ...sms };
  const plan = { plan: 'zeros (17,) int32', lengths: 'lengths there', stream: 'stream' };
  const pages = 'flash_attention_3/paged.cu';
  expect(named(calls, 'fa3_paged_bf16_64_floats', pages, '_floats')).toEqual(paged);
  expect(named(calls, 'fa3_paged_bf16_64_plan', pages, '_plan')).toEqual({ ...paged, ...plan });
  expect(named(calls, 'fa3_paged_bf16_64', pages)).toEqual({
    ...{ ...tensors, ...paged, ...plan, table: 'table', pages_of_pool: 55, scale: 'float 0.125' },
  });
});

pythonTest.each([
  ['decode', 'fp16', 1, 1],
  ['tensor_cores', 'bf16', 4, 0],
] as const)("calls of FlashInfer's object have the arguments of %s", (kind, dtype, S, graph) => {
  const [calls, source] = [recorded(), `flashinfer/${kind}.cu`];
  const name = `flashinfer_${kind}_${dtype}_64`;
  const sizes = { ...SIZES, S, page: 16, graph, ends: 'ends' };
  expect(named(calls, `${name}_bytes`, source, '_bytes')).toEqual({ ...sizes, float_bytes: 'out', int_bytes: 'out' });
  expect(named(calls, `${name}_plan`, source, '_plan')).toEqual({
    ...{ ...sizes, floats: 'zeros (1000,) uint8', float_bytes: 'long 1000', plan: 'out', stream: 'stream' },
    ...{ ints: 'zeros (2000,) uint8', pinned: 'empty (2000,) uint8', int_bytes: 'long 2000' },
  });
  expect(named(calls, name, source)).toEqual({ ...SIZES, S, ...FLASHINFER, query_ends: `arange (3,) int32 * ${S}` });
});

pythonTest('only tensor cores take several queries, and latent attention is called with its arguments', () => {
  const calls = recorded();
  expect(calls).toContainEqual(['refused', ['only the kernel on tensor cores takes several queries']]);
  const workspaces = { floats: 'zeros (134217728,) uint8', ints: 'zeros (8388608,) uint8', plan: 'out' };
  expect(named(calls, 'flashinfer_mla_bf16_plan', 'flashinfer/mla.cu', '_plan')).toEqual({
    ...{ ends: 'ends', lengths: 'lengths', B: 2, H: 16, S: 1, ...workspaces, pinned: 'empty (8388608,) uint8' },
    ...{ float_bytes: 'long 134217728', int_bytes: 'long 8388608', stream: 'stream' },
  });
  expect(named(calls, 'flashinfer_mla_bf16', 'flashinfer/mla.cu')).toEqual({
    ...{ q: 'q', cache: 'k', o: 'o', pages: 'pages there', H: 16, S: 1, page: 16, ...workspaces },
    ...{ scale: 'float 0.25', stream: 'stream' },
  });
});

const ABOUT = { device: 'GPU', torch: '2.11', seed: 5, kernels: ['k/ours'], objects: {} };

function summaryOf(program: string, lines: readonly object[]): string {
  const file = join(folder, `${program}.jsonl`);
  writeFileSync(file, [ABOUT, ...lines].map((line) => `${JSON.stringify(line)}\n`).join(''));
  return python(`lab/gpu_host/programs/${program}`, '--summary', file);
}

const times = (us: Record<string, number>) =>
  Object.fromEntries(Object.entries(us).map(([name, median]) => [name, [median, median, median]]));

pythonTest('a summary has a row for each rival, and who was wrong or missing', () => {
  const line = (Skv: number, S: number, us: Record<string, number>, rest: object = {}) => ({
    shape: `B=4,H=32,Hkv=8,S=${S},Skv=${Skv},D=128`,
    ...{
      dtype: 'bf16',
      us: times(us),
      missing: {},
      differences: { 'k/ours': 0.001 },
      cacheBytes: 16384 * Skv,
      ...rest,
    },
  });
  const text = summaryOf('decode_rivals.py', [
    line(100, 1, { 'k/ours': 10, copy: 4, flash: 30, fa3: 20, flashinfer: 12.5, flashinfer_exact: 8 }),
    line(200, 1, { 'k/ours': 10, copy: 4, flash: 30, fa3: 5, flashinfer: 50, flashinfer_exact: 8 }),
    line(
      300,
      4,
      { 'k/ours': 10, copy: 4, flash: 40 },
      {
        missing: { fa3: 'wrong: an element differs by 2.5', cudnn: 'no' },
        differences: { 'k/ours': 0.002, fa3: 'nan' },
      },
    ),
  ]);
  expect(text).toContain('| 1 | 0 to 10 MB | 2 | 3.000, 3.000, 3.000, 0 | 0.20 to 0.20 |');
  const rows = text.split('\n').filter((row) => /^\| (?:fa3|flash|fastest)/.test(row));
  expect(rows).toEqual([
    '| fa3 | 1 | 2 | 0.500, 1.000, 2.000 | 1 | B=4,H=32,Hkv=8,S=1,Skv=200,D=128 bf16 |',
    '| flash | 1 | 2 | 3.000, 3.000, 3.000 | 0 | B=4,H=32,Hkv=8,S=1,Skv=100,D=128 bf16 |',
    '| flash | 2 to 8 | 1 | 4.000, 4.000, 4.000 | 0 | B=4,H=32,Hkv=8,S=4,Skv=300,D=128 bf16 |',
    '| flashinfer | 1 | 2 | 1.250, 2.500, 5.000 | 0 | B=4,H=32,Hkv=8,S=1,Skv=100,D=128 bf16 |',
    '| flashinfer_exact | 1 | 2 | 0.800, 0.800, 0.800 | 2 | B=4,H=32,Hkv=8,S=1,Skv=100,D=128 bf16 |',
    '| fastest of all | 1 | 2 | 0.500, 0.791, 1.250 | 1 | B=4,H=32,Hkv=8,S=1,Skv=200,D=128 bf16 |',
    '| fastest of all | 2 to 8 | 1 | 4.000, 4.000, 4.000 | 0 | B=4,H=32,Hkv=8,S=4,Skv=300,D=128 bf16 |',
  ]);
  expect(text).toContain('k/ours: largest difference 2.00e-03 at 3 shapes.');
  expect(text).toContain('fa3: largest difference nan at 1 shapes.');
  expect(text).toMatch(/^fa3 was not timed at 1 shapes, such as B=4\S+ bf16: wrong: an element differs by 2\.5$/m);
  expect(text).not.toContain('cudnn');
});

pythonTest('a summary of latent attention has a column for FlashInfer if that was timed', () => {
  const line = (us: Record<string, number>) => ({
    ...{ shape: 'B=4,H=128,S=1,Skv=100,page=64', dtype: 'bf16', us: times(us), missing: {} },
    ...{ differences: { 'k/ours': 0.001 }, cacheBytes: 460800, flops: 1e8 },
  });
  const alone = summaryOf('mla_rivals.py', [line({ 'k/ours': 10, copy: 4, efficient: 30 })]);
  expect(alone).toContain('| B=4,H=128,S=1,Skv=100,page=64 bf16 | ours | 10.0 | 10 | 0.200 | 3.00 |\n');
  const beside = summaryOf('mla_rivals.py', [line({ 'k/ours': 10, copy: 4, flashinfer: 12 })]);
  expect(beside).toContain('| B=4,H=128,S=1,Skv=100,page=64 bf16 | ours | 10.0 | 10 | 0.200 | - | 1.20 |\n');
  expect(beside).toContain('| flashinfer | 1 | 1 | 1.200, 1.200, 1.200 | 0 | B=4,H=128,S=1,Skv=100,page=64 bf16 |');
});

pythonTest('a check fails if an output is wrong, a call failed, or nothing was called', () => {
  const text = python(
    '-c',
    `import sys, types
sys.path.insert(0, "lab/gpu_host/programs")
import decode_rivals as d

def checked(missing, differences, calls):
    subjects = types.SimpleNamespace(missing=missing, calls=calls, check=lambda: differences)
    print("verdict", d.tell_checked([{"shape": "B=1", "dtype": "bf16"}], lambda _: subjects))

wrong = types.SimpleNamespace(missing={"no": "built without"}, calls={"good": 1, "bad": 1, "nan": 1})
differences = {"good": 0.001, "bad": 1.0, "nan": float("nan")}
d.leave_out_wrong(wrong, differences, "bf16")
checked(wrong.missing, differences, wrong.calls)
checked({"failed": d.reason_of(RuntimeError("f returned 700"))}, {"good": 0.0}, {"good": 1})
checked({"no": d.reason_of(d.rival_objects.Missing("built without"))}, {}, {})
checked({}, {"good": 0.001}, {"good": 1})`,
  );
  expect(text.match(/^verdict \d+$/gm)).toEqual(['verdict 2', 'verdict 1', 'verdict 1', 'verdict 0']);
  expect(text).toContain(
    'WRONG B=1 bf16: bad wrong: an element differs by 1.0, nan wrong: an element differs by nan, ',
  );
  expect(text).toContain('WRONG B=1 bf16: failed failed: f returned 700, good 0.0e+00\n');
  expect(text).toContain('      not called: no: built without\n');
});
