/**
 * Tests imports of FlashInfer-Bench. fixtures/ has a definition of its data set, unchanged except for its layout
 * (Apache-2.0, flashinfer-ai/flashinfer-bench ecafa9c2, flashinfer_trace/definitions/gqa_paged), and small ones of our
 * own.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { parseCases, parseProblem, valuesOf } from '@flashcore/shared/kernels';
import { ALL_TESTS, growth, REPEATED } from '@flashcore/shared/testing';
import { describe, expect, test } from 'vitest';
import { mutated, numbers, testFolders } from '../testing/test-folders.ts';
import { parseDefinition } from './definition.ts';
import { referenceDigest } from './attention-forms.ts';
import { importProblems, type Imported } from './import-problems.ts';
import { UsageError } from '../exit-code.ts';

const folderOf = testFolders();

const into = (): string => path.join(folderOf({}), 'problems');
const imported = (from: string, to = into()): Imported[] => importProblems({ from, to, anyReference: true });
const problemIn = (folder: string) => parseProblem(readFileSync(path.join(folder, 'problem.yaml'), 'utf8'), folder);

const REAL = path.join(import.meta.dirname, 'fixtures/gqa_paged_decode_h6_kv1_d128_ps64.json');
const realText = readFileSync(REAL, 'utf8');

const constant = (value: number) => ({ type: 'const', value });
const VAR = { type: 'var' };
const bf16 = (...shape: string[]) => ({ shape, dtype: 'bfloat16' });
const int32 = (...shape: string[]) => ({ shape, dtype: 'int32' });

interface Written {
  name: string;
  op_type: string;
  axes: Record<string, unknown>;
  inputs: Record<string, unknown>;
  outputs: Record<string, unknown>;
  constraints?: unknown;
  reference: string;
}

/** A small definition of each form. */
const FORMS = JSON.parse(readFileSync(path.join(import.meta.dirname, 'fixtures/forms.json'), 'utf8')) as [
  ...[Written, Written, Written, Written, Written, Written],
];
const [DECODE, PREFILL, RAGGED, MLA_DECODE, MLA_PREFILL, MLA_RAGGED] = FORMS;

describe('each form of attention', () => {
  test.each([
    [DECODE, { q: 'q[b h d]', k: 'k_cache[b s h d]', page_offsets: 'kv_indptr', scale: '1 / sqrt(64)', causal: '0' }],
    [PREFILL, { q: 'q[s h d]', query_offsets: 'qo_indptr', page_table: 'kv_indices', causal: '2' }],
    [RAGGED, { k: 'k[s h d]', query_offsets: 'qo_indptr', key_offsets: 'kv_indptr', causal: '2' }],
    [MLA_DECODE, { q: 'q_nope | q_pe[b h d]', v: 'ckv_cache[b s d]', scale: '1 / sqrt(144)' }],
    [MLA_PREFILL, { q: 'q_nope | q_pe[s h d]', k: 'ckv_cache | kpe_cache[b s d]', key_lengths: 'kv_lengths' }],
    [MLA_RAGGED, { v: 'v[s h d]', o: 'output[s h d]', scale: '1 / sqrt(48)' }],
  ])('$name becomes a problem that a runner reads', (written, wanted) => {
    const [result] = imported(folderOf({ 'it.json': written }));
    expect(result).toMatchObject({ name: written.name, workloads: { taken: 0, found: 0 } });
    const problem = problemIn(result!.folder!);
    const { operands, tables, lseBase2 } = problem.operands;
    const text = Object.entries(operands).map(([name, { tensor, more, axes }]) => [
      name,
      `${tensor}${more === undefined ? '' : ` | ${more}`}[${axes.join(' ')}]`,
    ]);
    const attributes = problem.attributes.map(({ name, value }) => [name, value?.text]);
    expect({ ...Object.fromEntries([...text, ...attributes]), ...tables }).toMatchObject(wanted);
    expect([problem.id, lseBase2]).toEqual([written.name, true]);
    // The problem has every tensor of the definition except the scale, with the same number of dimensions.
    for (const [name, { shape }] of Object.entries({ ...written.inputs, ...written.outputs } as Record<
      string,
      { shape: [] }
    >))
      if (name !== 'sm_scale')
        expect([name, problem.tensors.find((tensor) => tensor.name === name)?.dims.length]).toEqual([
          name,
          shape.length,
        ]);
    expect(problem.require.map(({ require }) => require.text)).toContain('num_qo_heads == 4');
  });
});

test('without kv_last_page_len, sequences fill their pages and optional inputs are left out', () => {
  const inputs = Object.fromEntries(Object.entries(DECODE.inputs).filter(([name]) => name !== 'kv_last_page_len'));
  const dump = {
    ...DECODE,
    inputs: {
      ...inputs,
      kv_indptr: { ...int32('len_indptr'), dtype: 'unknown' },
      return_lse: { shape: null, dtype: 'int32', optional: true },
    },
  };
  const [result] = imported(folderOf({ 'it.json': dump }));
  const problem = problemIn(result!.folder!);
  expect(problem.tensors.find(({ name }) => name === 'kv_lengths')?.draw).toMatchObject({
    multipleOf: { text: 'page_size' },
  });
  expect(problem.tensors.map(({ name }) => name)).not.toContain('return_lse');
  const texts = ['problem.yaml', 'cases.yaml'].map((name) => readFileSync(path.join(result!.folder!, name), 'utf8'));
  expect(texts[0]).toContain('# Optional inputs are not given: return_lse.');
  const { sets, probes } = parseCases(texts[1]!, 'cases.yaml', problem);
  for (const shape of [...Object.values(sets).flat(), ...probes.shapes])
    expect(valuesOf(shape)['kv_len']! % 16).toBe(0);
});

describe('workloads', () => {
  const line = (axes: object, more: object = {}): string =>
    JSON.stringify({
      definition: 'decode',
      workload: { axes, inputs: { sm_scale: { type: 'scalar', value: 0.125 }, ...more } },
    });
  const casesOf = (workloads: readonly string[], written: Written = DECODE) => {
    const folder = folderOf({
      [`definitions/x/${written.name}.json`]: written,
      [`workloads/x/${written.name}.jsonl`]: workloads.join('\n'),
    });
    const [result] = imported(folder);
    const problem = problemIn(result!.folder!);
    const text = readFileSync(path.join(result!.folder!, 'cases.yaml'), 'utf8');
    return { result, text, sets: parseCases(text, 'cases.yaml', problem).sets, problem };
  };

  test('become a case set, with the mean length in whole pages, and the largest case is canonical', () => {
    const { result, sets, text } = casesOf([
      line({ batch_size: 4, len_indptr: 5, num_kv_indices: 9, num_pages: 90 }),
      line({ batch_size: 1, len_indptr: 2, num_kv_indices: 100, num_pages: 100 }),
      line({ batch_size: 1, len_indptr: 2, num_kv_indices: 100, num_pages: 300 }),
    ]);
    expect(result!.workloads).toEqual({ taken: 2, found: 3 });
    expect(sets['workloads']?.map(valuesOf)).toEqual([
      { batch_size: 4, kv_len: 48 },
      { batch_size: 1, kv_len: 1600 },
    ]);
    expect(sets.canonical.map(valuesOf)).toEqual([{ batch_size: 1, kv_len: 1600 }]);
    expect(text).toContain('# Left out: 1, the same case as another.');
  });

  test('with an axis of 0 or an unusual scale are left out and counted; the most common scale becomes the default', () => {
    const scaled = (value: number) => ({ sm_scale: { type: 'scalar', value } });
    const { text, problem, sets } = casesOf([
      line({ batch_size: 1, len_indptr: 2, num_kv_indices: 3 }, scaled(0.25)),
      line({ batch_size: 2, len_indptr: 3, num_kv_indices: 3 }, scaled(0.2500000001)),
      line({ batch_size: 3, len_indptr: 4, num_kv_indices: 3 }, scaled(0.125)),
      line({ batch_size: 4, len_indptr: 5, num_kv_indices: 0 }, scaled(0.25)),
    ]);
    expect(problem.attributes[0]?.value?.text).toBe('0.25');
    expect(sets['workloads']).toHaveLength(2);
    expect(text).toContain('1, another sm_scale.');
    expect(text).toContain('1, an axis that is 0 or missing.');
  });

  test('are found in the data set when only a definition file is given', () => {
    const folder = folderOf({
      'definitions/x/decode.json': DECODE,
      'workloads/x/decode.jsonl': line({ batch_size: 4, len_indptr: 5, num_kv_indices: 9 }),
    });
    expect(imported(path.join(folder, 'definitions/x/decode.json'))[0]).toMatchObject({ workloads: { taken: 1 } });
  });

  test('with mistakes are reported with their file, line and key', () => {
    const folder = folderOf({
      'definitions/x/decode.json': DECODE,
      'workloads/x/decode.jsonl': `\n${line({ batch_size: -4 })}`,
    });
    expect(imported(folder)[0]?.reason).toBe(
      'decode.jsonl, line 2:1: workload.axes.batch_size: must be an integer of 0 to 2147483647, got -4',
    );
  });
});

describe('a reference', () => {
  test('that is known is accepted, and one with a changed line only with --any-reference', () => {
    const known = importProblems({ from: REAL, to: into(), anyReference: false });
    expect(known).toMatchObject([{ name: 'gqa_paged_decode_h6_kv1_d128_ps64', folder: expect.any(String) as string }]);
    const other = folderOf({ 'it.json': realText.replace('logits * sm_scale', 'logits / sm_scale') });
    const [result] = importProblems({ from: other, to: into(), anyReference: false });
    expect(result?.reason).toMatch(
      /^it\.json: reference: nobody has compared this text with the built-in operation .*: read it, then give --any-reference$/,
    );
  });

  const digest = (reference: string): string => referenceDigest({ reference, axes: { heads: 32 } });
  test('keeps its digest with other comments, empty lines, line endings and assertions of constants', () => {
    const plain = 'def run(q):\n    x = q * 2\n    return x';
    const same = '# head\r\ndef run(q):  # that\r    assert heads == 32\n\n    x = q * 2 # twice\n    return x\n';
    expect(digest(same)).toBe(digest(plain));
  });

  test.each([
    ['other indentation', 'def run(q):\n  return q', 'def run(q):\n    return q'],
    ['another constant', 'x = q * 2', 'x = q * 3'],
    ['an assertion that does not hold', 'assert heads == 16', ''],
    ['an assertion with a call', 'assert open("x") == 1', ''],
    ['a comment mark inside a string', 'x = "a#b"', 'x = "a#c"'],
    ['code after a carriage return', 'x = 1 # \rx = 2', 'x = 1'],
  ])('has another digest if it has %s', (_, one, other) => {
    expect(digest(one)).not.toBe(digest(other));
  });
});

const GEMM = {
  ...{ name: 'gemm_n64_k96', op_type: 'gemm' },
  axes: { M: VAR, N: constant(64), K: constant(96) },
  inputs: { A: bf16('M', 'K'), B: bf16('N', 'K') },
  outputs: { C: bf16('M', 'N') },
  reference: 'import torch\n\ndef run(A, B):\n    C = torch.matmul(A, B.T)\n    return C',
};

describe('a definition that is an installed problem', () => {
  const refusedFor = (more: object): string | undefined =>
    importProblems({ from: folderOf({ 'it.json': { ...GEMM, ...more } }), to: into(), anyReference: false })[0]?.reason;

  test('is imported as a file of its shapes only, with each shape once', () => {
    const workload = (axes: object) => JSON.stringify({ definition: GEMM.name, workload: { axes, inputs: {} } });
    const from = folderOf({
      'definitions/gemm/gemm_n64_k96.json': GEMM,
      'workloads/gemm/gemm_n64_k96.jsonl': [{ M: 5 }, { M: 7, N: 9 }, { M: 5 }, { M: 0 }, {}].map(workload).join('\n'),
    });
    const to = into();
    const [result] = importProblems({ from, to, anyReference: false });
    expect(result).toMatchObject({ problem: 'gemm', workloads: { taken: 2, found: 5 } });
    expect(readdirSync(to)).toEqual(['gemm_n64_k96.shapes']);
    expect(readFileSync(result!.shapes!, 'utf8')).toBe('K=96,M=5,N=64\nK=96,M=7,N=64\n');
    expect(importProblems({ from, to, anyReference: false })[0]?.reason).toMatch(
      /gemm_n64_k96\.shapes is there already/,
    );
  });

  test.each<[string, object, RegExp]>([
    [
      'another layout',
      { inputs: { ...GEMM.inputs, B: bf16('K', 'N') } },
      /B: must be \[N, K\], as the installed problem gemm/,
    ],
    [
      'an input more',
      { inputs: { ...GEMM.inputs, bias: bf16('N') } },
      /bias: the installed problem gemm does not have it/,
    ],
    [
      'another dtype of the output',
      { outputs: { C: { shape: ['M', 'N'], dtype: 'float32' } } },
      /C\.dtype: must be fp16, bf16, fp32, e4m3, e5m2, int8, the same/,
    ],
    [
      'a dtype that the installed problem lacks',
      { inputs: { ...GEMM.inputs, A: { shape: ['M', 'K'], dtype: 'int8' } } },
      /A\.dtype: must be/,
    ],
    ['a constraint', { constraints: ['M > 4'] }, /M > 4: the installed problem gemm does not have it/],
    ['another reference', { reference: 'def run(A, B):\n    return A @ B' }, /nobody has compared this text/],
  ])('%s is refused', (_, more, message) => {
    expect(refusedFor(more)).toMatch(message);
  });
});

describe('a folder', () => {
  test('gives a line for each definition, and the valid ones are imported', () => {
    const folder = folderOf({
      'definitions/a/broken.json': '{ "name": ',
      'definitions/a/decode.json': DECODE,
      'definitions/b/norm.json': { ...DECODE, name: 'norm', op_type: 'rmsnorm' },
      'package.json': { name: 'nothing of it' },
    });
    const to = into();
    const results = imported(folder, to);
    expect(results.map(({ file, folder: made, reason }) => [file, made ?? reason])).toEqual([
      ['definitions/a/broken.json', expect.stringMatching(/^definitions\/a\/broken\.json: line 1: not valid JSON/)],
      ['definitions/a/decode.json', path.join(to, 'decode')],
      [
        'definitions/b/norm.json',
        'definitions/b/norm.json: op_type: "rmsnorm" is none of gqa_paged, gqa_ragged, mla_paged, mla_ragged: write the problem by hand, with a reference.cpp',
      ],
    ]);
  });

  test('of KernelBench or GPU MODE gives the reason why there are no definitions', () => {
    const reasons = imported(folderOf({ 'level1/1_a.py': 'x', 'level1/2_b.py': 'x', 'amd/task.yml': 'x' })).map(
      ({ reason }) => reason,
    );
    expect(reasons).toEqual([
      expect.stringMatching(/^\*\.py: 2 files: Python programs, which are not run: give --from kernelbench/),
      expect.stringMatching(/^task\.yml: 1 file: a task of GPU MODE has only shapes/),
    ]);
  });

  test('of SOL-ExecBench names the parts that only a program can define', () => {
    const computed = { ...DECODE, axes: { ...DECODE.axes, more: { type: 'expr', expression: '2 * page_size' } } };
    const made = { ...DECODE, custom_inputs_entrypoint: 'make_inputs' };
    const reasons = imported(folderOf({ 'a.json': computed, 'b.json': made })).map(({ reason }) => reason);
    expect(reasons).toEqual([
      expect.stringContaining('a.json: axes.more: only a program gives its value, as in SOL-ExecBench'),
      expect.stringContaining('b.json: custom_inputs_entrypoint: only a program gives its value'),
    ]);
  });

  test('with more files than any data set has is refused', () => {
    const files = Object.fromEntries(Array.from({ length: 4097 }, (_, index) => [`${index}.txt`, '']));
    expect(() => imported(folderOf(files))).toThrow(
      /must have at most 4096 files: give only the folder of the data set/,
    );
  });

  test('without definitions, or at an invalid path, is an error of the command line', () => {
    expect(() => imported(folderOf({ 'a.txt': '' }))).toThrow(UsageError);
    expect(() => imported(path.join(folderOf({}), 'nowhere'))).toThrow(/there is no such file or folder/);
    expect(() => imported(REAL, path.join(folderOf({}), 'no/where'))).toThrow(/there is no folder/);
    expect(() => imported(REAL, path.join(folderOf({ file: '' }), 'file'))).toThrow(/must be a folder/);
  });
});

describe('writes only new folders below --to', () => {
  test.each(['../../escape', '/etc/passwd', '..', 'a/b', 'A b', 'x\u0000y', '日本'])(
    'for a definition with the name %j',
    (name) => {
      const to = into();
      const [result] = imported(folderOf({ 'it.json': { ...DECODE, name } }), to);
      if (result!.folder === undefined) expect(result!.reason).toMatch(/^it\.json.*name: /);
      else expect(path.relative(to, result!.folder)).toMatch(/^[a-z][a-z0-9_]*$/);
      const made = existsSync(to) ? readdirSync(to) : [];
      expect(readdirSync(path.dirname(to))).toEqual(['problems']);
      expect(made).toEqual(result!.folder === undefined ? [] : [path.basename(result!.folder)]);
    },
  );

  test('an existing folder, link or id stays unchanged', () => {
    const to = into();
    mkdirSync(path.join(to, 'decode'), { recursive: true });
    const elsewhere = folderOf({});
    symlinkSync(elsewhere, path.join(to, 'ragged_causal'));
    const folder = folderOf({
      'a.json': DECODE,
      'b.json': RAGGED,
      'c.json': { ...DECODE, name: 'gemm' },
      'd.json': { ...PREFILL, name: 'Prefill causal' },
      'e.json': { ...PREFILL, name: 'prefill-causal' },
    });
    const reasons = imported(folder, to).map(({ reason }) => reason?.replace(to, 'TO'));
    expect(reasons).toEqual([
      'a.json: name: TO/decode is there already: remove it, or give another folder with --to',
      'b.json: name: TO/ragged_causal is there already: remove it, or give another folder with --to',
      'c.json: name: a problem has the id gemm already: give the definition another name',
      undefined,
      'e.json: name: a problem has the id prefill_causal already: give the definition another name',
    ]);
    expect([readdirSync(elsewhere), readdirSync(path.join(to, 'decode'))]).toEqual([[], []]);
  });

  test('links in the folder are not followed', () => {
    const folder = folderOf({ 'definitions/a.json': DECODE });
    symlinkSync('/etc', path.join(folder, 'definitions/etc'));
    symlinkSync(REAL, path.join(folder, 'definitions/b.json'));
    expect(imported(folder).map(({ file }) => file)).toEqual(['definitions/a.json']);
  });
});

type Change = (written: Written) => unknown;
const axis =
  (name: string, value: unknown): Change =>
  (written) => ({ ...written, axes: { ...written.axes, [name]: value } });
const input =
  (name: string, value: unknown): Change =>
  (written) => ({ ...written, inputs: { ...written.inputs, [name]: value } });

describe('a definition is refused with file, key and remedy', () => {
  test.each<[string, Change, RegExp]>([
    [
      'a list instead of an object',
      () => [1],
      /^it\.json: must be a definition of FlashInfer-Bench: a JSON object, got \[1\]$/,
    ],
    [
      'a negative extent',
      axis('page_size', constant(-1)),
      /axes\.page_size\.value: must be an integer of 1 to 2147483647/,
    ],
    [
      'a huge extent',
      axis('page_size', constant(2 ** 31)),
      /axes\.page_size\.value: must be an integer of 1 to 2147483647/,
    ],
    ['a fractional extent', axis('page_size', constant(1.5)), /axes\.page_size\.value: must be an integer/],
    [
      'an extent that is a text',
      axis('page_size', { type: 'const', value: '1e400' }),
      /axes\.page_size\.value: must be an integer/,
    ],
    ['a constant without a value', axis('page_size', { type: 'const' }), /axes\.page_size: must have a `value` with/],
    [
      'a variable with a value',
      axis('batch_size', { type: 'var', value: 4 }),
      /axes\.batch_size: must have a `value` with/,
    ],
    [
      'an unknown kind of axis',
      axis('page_size', { type: 'konst' }),
      /axes\.page_size\.type: must be one of const, var, expr/,
    ],
    ['an axis name that is not an identifier', axis('a b', VAR), /axes\.a b: must be a Python identifier/],
    [
      'a constant for an axis that workloads set',
      axis('num_pages', constant(4)),
      /axes\.num_pages: must be an axis of workloads/,
    ],
    [
      'a variable head dimension',
      axis('head_dim', VAR),
      /axes\.head_dim: must be a constant, got an axis of workloads/,
    ],
    [
      'an unknown dtype',
      input('q', { shape: ['batch_size'], dtype: 'float12' }),
      /inputs\.q\.dtype: must be one of float32/,
    ],
    [
      'a dtype that only other tensors may have',
      input('kv_indptr', bf16('len_indptr')),
      /inputs\.kv_indptr\.dtype: must be int32 or unknown, got bfloat16/,
    ],
    [
      'mixed dtypes',
      input('v_cache', { shape: ['num_pages', 'page_size', 'num_kv_heads', 'head_dim'], dtype: 'float16' }),
      /inputs\.v_cache\.dtype: must be bfloat16, as q has, got float16/,
    ],
    [
      'an unknown axis',
      input('q', bf16('batch_sise')),
      /inputs\.q\.shape\[0\]: unknown axis "batch_sise" \(did you mean "batch_size"\?\)/,
    ],
    [
      'too many dimensions',
      input('q', bf16(...Array<string>(9).fill('batch_size'))),
      /inputs\.q\.shape: must have at most 8 elements/,
    ],
    [
      'another layout',
      input('q', bf16('num_qo_heads', 'batch_size', 'head_dim')),
      /inputs\.q\.shape: must be \[batch_size, num_qo_heads, head_dim\]/,
    ],
    [
      'an input more',
      input('mask', bf16('batch_size')),
      /inputs\.mask: no form of attention that is known here has it/,
    ],
    [
      'an output with the name of an input',
      (it) => ({ ...it, outputs: { ...it.outputs, q: bf16('batch_size') } }),
      /outputs\.q: the name is taken by an input/,
    ],
    ['no output', (it) => ({ ...it, outputs: {} }), /outputs\.output: must be there, with the shape/],
    [
      'a constraint that no rule for drawn inputs meets',
      (it) => ({ ...it, constraints: ['x > 1'] }),
      /constraints: nothing here draws "x > 1"/,
    ],
    ['constraints that are not a list', (it) => ({ ...it, constraints: { a: 1 } }), /constraints: must be a list/],
    ['no reference', ({ reference: _, ...it }) => it, /reference: must be a text, got nothing/],
    ['a name without letters', (it) => ({ ...it, name: '!!' }), /name: must be a name of which lower-case letters/],
    [
      'an axis that appears twice',
      (it) => JSON.stringify(it).replace('"axes":{', '"axes":{"head_dim":{"type":"var"},'),
      /the key "head_dim" appears twice/,
    ],
    [
      'a YAML value that contains itself',
      () => '&a { name: *a }',
      /^it\.json: line 1: not usable YAML: the value "&a" contains itself$/,
    ],
    [
      'a file above the size limit',
      (it) => ({ ...it, description: 'x'.repeat(30_000) }),
      /must have at most 24576 bytes, got/,
    ],
    ['nesting that is too deep', () => '['.repeat(12_000), /^it\.json/],
  ])('%s', (_, change, message) => {
    const [result] = imported(folderOf({ 'it.json': change(DECODE) }));
    expect(result?.reason).toMatch(message);
    expect(result?.reason).toMatch(/^it\.json/);
    expect(result?.folder).toBeUndefined();
  });

  test('terminal commands in a name are not printed', () => {
    const [result] = imported(folderOf({ 'it.json': { ...DECODE, name: 'a\u001b[2J', op_type: '\u001b]0;x\u0007' } }));
    expect(JSON.stringify(result)).not.toMatch(/u001b|u0007/);
  });
});

test.each(['\n', '\r', '\r\n', '\u2028', '\u0085'])(
  'a line break %j in a name adds no key to the problem',
  (lineBreak) => {
    const [result] = imported(folderOf({ 'it.json': { ...DECODE, name: `a${lineBreak}symmetries: {}` } }));
    expect(result?.reason).toBeUndefined();
    expect(readFileSync(path.join(result!.folder!, 'problem.yaml'), 'utf8')).toMatch(
      /^# a ?symmetries: \{\} of FlashInfer-Bench, imported/,
    );
  },
);

const MUTANTS = ALL_TESTS ? 200 : 60;

test('mutations of a real definition are imported, or refused with file and key, and no part of them is run', () => {
  const below = numbers(37);
  const texts = Array.from({ length: MUTANTS }, () => mutated(realText, below));
  const folder = folderOf(Object.fromEntries(texts.map((text, index) => [`${index}.json`, text])));
  const to = into();
  const results = imported(folder, to);
  expect(results).toHaveLength(MUTANTS);
  const refused = results.filter(({ reason }) => reason !== undefined);
  for (const { file, reason } of refused) expect(reason!.startsWith(file), reason).toBe(true);
  for (const { folder: made } of results) if (made !== undefined) expect(path.dirname(made)).toBe(to);
  expect(refused.length).toBeGreaterThan(MUTANTS / 4);
  expect(existsSync('pwned')).toBe(false);
});

test('mutations of workloads become cases, or are refused with file and line', () => {
  const below = numbers(41);
  const line = JSON.stringify({
    definition: 'decode',
    workload: {
      axes: { batch_size: 4, len_indptr: 5, num_kv_indices: 9 },
      inputs: { sm_scale: { type: 'scalar', value: 0.125 } },
    },
  });
  for (let round = 0; round < 60; round += 1) {
    const [result] = imported(
      folderOf({ 'definitions/x/decode.json': DECODE, 'workloads/x/decode.jsonl': mutated(line, below) }),
    );
    if (result!.reason !== undefined)
      expect(result!.reason).toMatch(/^(decode\.jsonl, line 1|definitions\/x\/decode\.json: sm_scale)/);
  }
});

test.each(['    assert a == ', 'assert a == 1\n', ...REPEATED])(
  'reading a reference with many %j takes linear time',
  (piece) => {
    const read = (reference: string) => referenceDigest({ reference, axes: { a: 1 } });
    expect(growth((length) => piece.repeat(Math.ceil(length / piece.length)), read)).toBeUndefined();
  },
);

test('a key such as __proto__ in a definition changes nothing', () => {
  const text = JSON.stringify(DECODE)
    .replace('{', '{"__proto__":{"op_type":"x"},')
    .replace('"axes":{', '"axes":{"__proto__":{"type":"var"},');
  const [result] = imported(folderOf({ 'it.json': text }));
  expect([result?.opType, ({} as { type?: unknown }).type]).toEqual(['gqa_paged', undefined]);
});

test("the fixture's definition parses with the id and op_type of the original", () => {
  expect(parseDefinition(realText, 'it.json')).toMatchObject({
    id: 'gqa_paged_decode_h6_kv1_d128_ps64',
    opType: 'gqa_paged',
  });
});
