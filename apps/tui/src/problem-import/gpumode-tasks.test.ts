/**
 * Tests imports of GPU MODE's tasks, with fixed answers instead of the sandbox's. test/e2e/import-program.test.ts runs
 * the references.
 */
import { existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { parseCases, parseProblem, valuesOf } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { mutated, numbers, testFolders } from '../testing/test-folders.ts';
import { importPrograms } from './import-programs.ts';

const folderOf = testFolders();

const REFERENCE = `import os
from utils import make_match_reference
os.system('touch pwned')
def generate_input(rows, cols, half, seed):
    return ()
def ref_kernel(data):
    return data
check_implementation = make_match_reference(ref_kernel)
`;
const TASK = `files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
description: |
  Scale each row.
config:
  main: "eval.py"
tests:
  - {"rows": 3, "cols": 16, "half": True, "kind": "dense", "seed": 7}
benchmarks:
  - {"rows": 1024, "cols": 4096, "half": False, "kind": "dense", "seed": 9007199254740991}
ranking_by: "geom"
`;
const DESCRIBED = {
  axes: [
    { name: 'rows', value: 1024, draw: 'length' },
    { name: 'cols', value: 4096, draw: 'width' },
  ],
  tensors: [
    { kind: 'input', name: 'x', dims: ['rows', 'cols'] },
    { kind: 'input', name: 'scale', dims: ['rows'] },
    { kind: 'output', name: 'out', dims: ['rows', 'cols'] },
  ],
  cases: [{ rows: 3, cols: 16 }],
  canonical: { rows: 1024, cols: 4096 },
  named: [
    { rows: 3, cols: 16 },
    { rows: 1024, cols: 4096 },
  ],
  ignored: [],
  distributions: ['normal'],
  weightScale: 1,
  rms: 1,
  largest: 4,
  roundingError: 1e-7,
  spec: 1,
  places: [0, 2],
};

/** Imports, and returns the results together with the texts that the sandbox got. */
async function imported(from: string, answer: object = DESCRIBED, to = path.join(folderOf({}), 'problems')) {
  const asked: string[] = [];
  const results = await importPrograms({
    from,
    form: 'gpumode',
    to,
    describe: (files) => {
      asked.push(...files.map((file) => readFileSync(file, 'utf8')));
      return Promise.resolve(files.map(() => JSON.stringify(answer)).join('\n'));
    },
  });
  return { results, asked };
}

const taskOf = (task: string) => folderOf({ 'set/scale_py/task.yml': task, 'set/scale_py/reference.py': REFERENCE });

test('a described task becomes a problem with a case set of the tests and benchmarks', async () => {
  const { results, asked } = await imported(taskOf(TASK));
  expect(results).toEqual([
    expect.objectContaining({ file: 'set/scale_py/task.yml', name: 'set/scale_py', opType: 'gpumode', dtype: 'fp32' }),
  ]);
  expect(asked.map((text) => JSON.parse(text) as unknown)).toEqual([
    {
      source: REFERENCE,
      tests: [{ rows: 3, cols: 16, half: true, kind: 'dense', seed: 7 }],
      benchmarks: [{ rows: 1024, cols: 4096, half: false, kind: 'dense', seed: 9007199254740991 }],
    },
  ]);
  const textOf = (name: string) => readFileSync(path.join(results[0]!.folder!, name), 'utf8');
  const problem = parseProblem(textOf('problem.yaml'), 'problem.yaml');
  const { sets } = parseCases(textOf('cases.yaml'), 'cases.yaml', problem);
  expect([problem.id, problem.tensors.map(({ name }) => name), sets['gpumode']?.map(valuesOf)]).toEqual([
    'set_scale_py',
    ['x', 'scale', 'out'],
    DESCRIBED.named,
  ]);
  const reference = textOf('reference.py');
  expect(reference.startsWith(REFERENCE)).toBe(true);
  expect(reference).toContain(
    'arguments={"rows": 1024, "cols": 4096, "half": False, "kind": "dense", "seed": 9007199254740991},',
  );
  expect(reference).toContain('inputs={"x": 0, "scale": 2},');
});

test('rows of the data set contain the files, with the task as JSON or as its text', async () => {
  const task = {
    lang: 'py',
    files: { 'submission.py': '@SUBMISSION@', 'reference.py': REFERENCE },
    tests: [{ rows: 3, cols: 16 }],
    benchmarks: [{ rows: 64, cols: 16 }],
  };
  const rows = [
    { id: 1, name: 'scale', task },
    { id: 2, name: 'scale-text', task: JSON.stringify(task) },
    { id: 3, name: 'none', task: { ...task, files: {} } },
    { id: 4, name: 'CUDA', task: { ...task, lang: 'cu' } },
    { id: 5, name: 'lists', task: { ...task, tests: [{ m: [1, 2] }] } },
    { id: 6, task },
    { id: 7, name: 'no-task' },
  ];
  // A row that is not JSON, or gives a key twice, does not keep the others from being imported.
  const unreadable = ['{"name": NaN}', '{"name": "x", "task": {"lang": "py", "l\\u0061ng": "cu"}}', '[]'];
  const lines = `${[...rows.map((row) => JSON.stringify(row)), ...unreadable].join('\n')}\n`;
  const { results } = await imported(path.join(folderOf({ 'rows.jsonl': lines }), 'rows.jsonl'));
  expect(results.map(({ folder, reason }) => (folder && path.basename(folder)) ?? reason)).toEqual([
    'gpumode_scale',
    'gpumode_scale_text',
    'rows.jsonl, row 3: task.files: must have a file with the name reference.py',
    'rows.jsonl, row 4: lang: must be py, got cu: its reference is not a Python program',
    expect.stringMatching(/^rows\.jsonl, row 5: task\.tests\[0\]\.m: must be one number/),
    'rows.jsonl, row 6: name: must be a text, got nothing',
    'rows.jsonl, row 7: task: must be a task of GPU MODE: a mapping, got nothing',
    'rows.jsonl, row 8: the line: must be JSON',
    'rows.jsonl, row 9: the line: must have each key once, got lang twice',
    'rows.jsonl, row 10: the row: must be a row of GPU MODE: a JSON object with name and task, got []',
  ]);
});

const BOMB = `a: &a [x, x, x, x, x, x, x, x, x]\n${[...'bcdefgh']
  .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[index]}`).join(', ')}]`)
  .join('\n')}\n`;
const source = (name: string) => TASK.replace('"source": "reference.py"', `"source": ${JSON.stringify(name)}`);

test.each([
  ['YAML aliases that expand without limit', BOMB + TASK, /^set\/scale_py\/task\.yml: not usable YAML: /],
  ['a value that contains itself', `a: &a [*a]\n${TASK}`, /contains itself/],
  ["a Python object's tag", `a: !!python/object/apply:os.system ["touch pwned"]\n${TASK}`, /line 1: not valid YAML/],
  ['deep nesting', `a: ${'['.repeat(20_000)}`, /not (valid|usable) YAML/],
  ['a key that appears twice', `${TASK}lang: "cu"\n`, /the key "lang" appears twice/],
  ['a file above the size limit', `${TASK}#${'x'.repeat(30_000)}`, /^set\/scale_py\/task\.yml: /],
  [
    'a reference in the parent folder',
    source('../reference.py'),
    /files\[1\]\.source: must be a file in the folder of task\.yml, got "\.\.\/reference\.py"/,
  ],
  ['a reference at an absolute path', source('/etc/passwd'), /files\[1\]\.source: /],
  ['a reference with a backslash in its path', source(String.raw`..\reference.py`), /files\[1\]\.source: /],
  ['a reference that is a link', source('link.py'), /link\.py: must be a file, and no link is followed/],
  ['a reference that does not exist', source('none.py'), /task\.yml: cannot be read \(ENOENT\)/],
  [
    'no file named reference.py',
    source('reference.py').replace('"name": "reference.py"', '"name": "other.py"'),
    /files: must have a file with the name reference\.py/,
  ],
  [
    'an extent above the limit',
    TASK.replace('"rows": 3', '"rows": 99999999999'),
    /tests\[0\]\.rows: must be a number of at most 2147483647/,
  ],
  ['an infinite number', TASK.replace('"rows": 3', '"rows": 1e999'), /tests\[0\]\.rows: must be one number/],
  [
    'Python in a text',
    TASK.replace('"kind": "dense"', String.raw`"kind": "x\"); import os; (\""`),
    /tests\[0\]\.kind: must be one number/,
  ],
  [
    'Python in a name',
    TASK.replace('"kind"', '"kind=__import__"'),
    /tests\[0\]\.kind=__import__: must be a Python identifier/,
  ],
  ['CUDA', TASK.replace('lang: "py"', 'lang: "cu"'), /lang: must be py, got cu/],
  ['several GPUs', `${TASK}multi_gpu: true\n`, /multi_gpu: the task needs several GPUs/],
  ['no cases', TASK.replaceAll(/ {2}- \{"rows.*\n/g, ''), /benchmarks: must have at least one with arguments/],
  [
    'control characters in a name',
    TASK.replace('"py"', String.raw`"\x1b[2Jpy"`),
    /^[^\u001b]*lang: must be one of py, cu[^\u001b]*$/,
  ],
])('a task with %s is refused with file and key, and reaches no sandbox', async (_, task, message) => {
  const from = taskOf(task);
  symlinkSync('/etc/passwd', path.join(from, 'set/scale_py/link.py'));
  const { results, asked } = await imported(from);
  expect(results.map(({ folder, reason }) => [folder, reason])).toEqual([[undefined, expect.stringMatching(message)]]);
  expect(results[0]!.reason).toMatch(/^set\/scale_py\/task\.yml/);
  expect([asked, existsSync('pwned')]).toEqual([[], false]);
});

test.each([
  ['a test that does not exist', { spec: 2 }],
  ['no test', { spec: undefined }],
  ['too few places', { places: [0] }],
])('an answer with %s is refused', async (_, change) => {
  const { results } = await imported(taskOf(TASK), { ...DESCRIBED, ...change });
  expect(results[0]?.reason).toBe(
    'set/scale_py/task.yml: the program: its answer names no test and no places of inputs',
  );
});

test("a sandbox's long reason is cut, and its control characters do not reach a terminal", async () => {
  const { results } = await imported(taskOf(TASK), { refused: `\u001b[2J${'x'.repeat(100_000)}` });
  expect(results[0]?.reason?.length).toBeLessThan(600);
  expect(results[0]?.reason).not.toContain('\u001b');
});

test('rows nested deeper than the stack are refused, not reported as a bug of this program', async () => {
  const deep = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`;
  const { results } = await imported(path.join(folderOf({ 'rows.json': deep }), 'rows.json'));
  expect(results.map(({ reason }) => reason)).toEqual([
    'rows.json, row 1: the row: must be a row of GPU MODE: a JSON object with name and task, got [[[["…"]]]]',
  ]);
});

test('mutated tasks become problems or reasons with the file, and no part of a task is run', async () => {
  const below = numbers(20);
  const tasks = Array.from({ length: 200 }, (_, index): [string, string] => [
    `set/t${1000 + index}/task.yml`,
    mutated(TASK, below),
  ]);
  const from = folderOf({
    ...Object.fromEntries(tasks),
    ...Object.fromEntries(tasks.map(([name]) => [name.replace('task.yml', 'reference.py'), REFERENCE])),
  });
  const to = path.join(folderOf({}), 'problems');
  const { results } = await imported(from, DESCRIBED, to);
  const refused = results.filter(({ reason }) => reason !== undefined);
  expect(results).toHaveLength(200);
  for (const { reason, file } of refused) expect(reason?.startsWith(file)).toBe(true);
  expect(refused.length).toBeGreaterThan(50);
  expect(readdirSync(to).every((name) => /^set_t\d+$/.test(name))).toBe(true);
  expect(existsSync('pwned')).toBe(false);
});
