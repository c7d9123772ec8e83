import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseManifest } from './manifest.ts';
import { TO_FILL_IN, draftFiles, originalsOfPtx } from './ptx-draft.ts';

const FOLDER = join(import.meta.dirname, '../../../../examples/kernels/triton_attention');
const TRITON = readFileSync(join(FOLDER, 'attention.ptx'), 'utf8');

const draft = (ptx: string, problem?: string): string =>
  draftFiles(ptx, { id: 'mine', source: 'mine.ptx', problem })['kernel.yaml']!;
/** PTX with an entry that has these parameters. */
const withEntry = (parameters: string, directives = '', before = ''): string =>
  `.version 8.0\n.target sm_90a\n${before}\n.visible .entry run(${parameters})\n${directives}\n{\nret;\n}\n`;

test("the draft from Triton's code is a valid manifest, with the unknown parts marked", () => {
  const text = draft(TRITON);
  const { launches, minArch, exactArch, emulated } = parseManifest(text, 'kernel.yaml');
  expect({ minArch, exactArch, emulated }).toEqual({ minArch: 'sm_80', exactArch: false, emulated: 'ptx' });
  expect(launches.map(({ entry, arguments: given }) => [entry, given.map(({ kind }) => kind)])).toEqual([
    ['attention', ['tensor', 'tensor', 'tensor', 'tensor', 'int32', 'float32', 'int32', 'null', 'null']],
  ]);
  expect(text).toContain('    block: [128, 1, 1]\n');
  for (const marked of ['grid: [1, 1, 1]', 'shared_bytes: 0', 'inputs: fp16', 'title: '])
    expect(text.split('\n').find((line) => line.includes(marked))).toContain(TO_FILL_IN);
});

test.each([
  ['gemm', '.param .u64 a, .param .u64 b, .param .u64 c', ['A', 'B', 'C']],
  ['rmsnorm', '.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d', ['X', 'W', 'Y', 'null']],
])('the pointers of %s are its tensors, and pointers beyond those are null', (problem, parameters, names) => {
  const text = draft(withEntry(parameters), problem);
  expect([...text.matchAll(/^ {6}- (.*?) # TODO/gm)].map(([, name]) => name)).toEqual(names);
  expect(parseManifest(text, 'kernel.yaml').problem.id).toBe(problem);
});

test('drafts structures, several entries, an exact architecture, and a block that the code does not specify', () => {
  const text = draft(`${withEntry('.param .align 8 .b8 args[24]')}\n.visible .entry other()\n{\nret;\n}\n`);
  expect(text).toContain('arch: sm_90a');
  expect(text).toContain('- { struct: { bytes: 24, fields: {} } } # TODO: parameter 1, structure [24]; ');
  expect(text).toContain('# The file has other entries, too: other');
  expect(text).toMatch(/block: \[128, 1, 1\] # TODO/);
});

test.each(['', 'def attention(): pass', '.entry hidden() { ret; }', '// .visible .entry run() {'])(
  '%j has no entry, and the error says so',
  (text) => expect(() => draft(text)).toThrow('mine.ptx: must have a .visible .entry, and has none'),
);

test('the draft names original files without their folders', () => {
  expect(originalsOfPtx(TRITON)).toEqual(['attention.py', 'standard.py']);
  expect(originalsOfPtx('.file 1 "/etc/passwd"\n.file\t2 "../../a b.cu"\n  .file 1 "x/passwd"\n')).toEqual([
    'passwd',
    'a b.cu',
  ]);
});

test.each([
  ['entries without an end', '.visible .entry a('],
  ['parameters without an end', `.visible .entry a(${'.param .u64 p, '.repeat(1_000)}`],
  ['spaces', `.visible${' '.repeat(1_000)}.entry`],
])('two megabytes of %s are read within two seconds', (_, piece) => {
  const started = performance.now();
  expect(() => draft(piece.repeat(Math.ceil(2e6 / piece.length)))).toThrow('has none');
  expect(performance.now() - started).toBeLessThan(2_000);
});
