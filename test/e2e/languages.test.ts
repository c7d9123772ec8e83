/** Kernels in other languages: PTX made by another compiler, here Triton's, and the sources it was made from. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FindingKind, type Finding, type JobResult } from '@flashcore/shared/contract';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const KERNEL = join(ROOT, 'examples/kernels/triton_attention');
/** The emulator's PTX engine needs one of these; with g++ alone the emulator runs CUDA C++ on fibres. */
const noPtx = missing('nvcc') && missing('clang');
const CASE = ['--shape', '1x1x77x64c', '--seeds', '2'];

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** A copy of the kernel with one file changed. */
function changed(name: string, file: string, change: (text: string) => string): string {
  const folder = join(home.path, name);
  cpSync(KERNEL, folder, { recursive: true });
  const before = readFileSync(join(folder, file), 'utf8');
  const after = change(before);
  expect(after).not.toBe(before);
  writeFileSync(join(folder, file), after);
  return folder;
}

function findingOf(folder: string): { finding: Finding; result: JobResult; exitCode: number | null } {
  const { response, exitCode } = home.runJson(['verify', folder, ...CASE]);
  return { finding: response.result!.variants[0]!.findings[0]!, result: response.result!, exitCode };
}

const line = (text: string): number =>
  readFileSync(join(KERNEL, 'attention.py'), 'utf8')
    .split('\n')
    .findIndex((each) => each.includes(text)) + 1;

test.skipIf(noPtx)("Triton's PTX is verified, watched for races, and profiled by the lines of its Python", () => {
  const verified = home.runJson(['verify', KERNEL, ...CASE, '--shape', '1x2x128x64']);
  expect(verified.exitCode, verified.stderr).toBe(0);
  expect(verified.stderr).toContain('every access to memory watched, no race found');
  const { artifacts } = verified.response.result!.variants[0]!.build!;
  expect(artifacts.map(({ fileName }) => fileName)).toEqual(expect.arrayContaining(['attention.ptx', 'attention.py']));
  const profiled = home.faTui(['profile', KERNEL, '--shape', '1x1x128x64', '--lines']);
  expect(profiled.exitCode, profiled.stderr).toBe(0);
  expect(profiled.stdout).toContain('Lines of attention.py');
  const dot = new RegExp(`^ +${line('tl.dot(q, tl.trans(k))')} .*\\b512\\b`, 'm');
  expect(profiled.stdout).toMatch(dot);
});

test.skipIf(noPtx)('a store without its mask is out of bounds, and the finding names its line of Python', () => {
  // Without the mask the rows beyond the end of the last tile are written too.
  const folder = changed('unmasked', 'attention.ptx', (text) => text.replaceAll(/@%p\d+ (st\.global)/g, '$1'));
  const { finding, exitCode } = findingOf(folder);
  expect([exitCode, FindingKind[finding.kind]]).toEqual([1, 'OUT_OF_BOUNDS']);
  expect(finding.location).toMatchObject({ file: 'attention.py', line: line('tl.store(') });
  expect(finding.frame!.lines.join('\n')).toContain('tl.store(Out + at');
});

test.skipIf(noPtx)('a mask that lets future keys in is a wrong result', () => {
  const folder = changed('uncausal', 'kernel.yaml', (text) =>
    edited(text, 'scale, causal,', 'scale, { int32: "causal * 0" },'),
  );
  const { finding } = findingOf(folder);
  expect(FindingKind[finding.kind]).toBe('WRONG_RESULT');
});

test.skipIf(noPtx)("arguments that do not match the entry's parameters are reported before a launch", () => {
  const folder = changed('fewer', 'kernel.yaml', (text) => edited(text, ', null, null]', ']'));
  const { finding, exitCode } = findingOf(folder);
  expect([exitCode, FindingKind[finding.kind]]).toEqual([1, 'WRONG_ARGUMENTS']);
  expect(finding.message).toContain('takes 9 parameters');
});

test.skipIf(noPtx)('an unknown entry is reported with the entries that the PTX has', () => {
  const folder = changed('misnamed', 'kernel.yaml', (text) => edited(text, 'entry: attention', 'entry: attend'));
  const { finding } = findingOf(folder);
  expect(FindingKind[finding.kind]).toBe('MISSING_ENTRY');
  expect(finding.message).toContain('attention');
});

test.skipIf(noPtx).each<[string, (text: string) => string, RegExp]>([
  ['no PTX', () => 'def attention(Q, K, V, O):\n    pass\n', /COMPILE_FAILED|MISSING_ENTRY/],
  ['an unknown instruction', (text) => edited(text, 'mma.sync', 'mna.sync'), /COMPILE_FAILED|LAUNCH_FAILED/],
  [
    'a file of the host',
    (text) => edited(text, '.address_size 64', '.address_size 64\n.include "/etc/passwd"'),
    /COMPILE_FAILED/,
  ],
])('PTX with %s is a finding, and the runner keeps running', (name, change, kinds) => {
  const { finding, exitCode } = findingOf(changed(name.replaceAll(' ', '_'), 'attention.ptx', change));
  expect([exitCode, FindingKind[finding.kind]]).toEqual([1, expect.stringMatching(kinds)]);
  expect(home.faTui(['verify', KERNEL, ...CASE]).exitCode).toBe(0);
});

test.skipIf(noPtx)('new --from-ptx drafts a manifest; with its missing values filled in, the kernel passes', () => {
  const folder = join(home.path, 'drafted');
  const made = home.faTui(['new', folder, '--from-ptx', join(KERNEL, 'attention.ptx')]);
  expect([made.exitCode, made.stdout]).toEqual([
    0,
    expect.stringContaining('attention.ptx, attention.py, kernel.yaml'),
  ]);
  const manifest = join(folder, 'kernel.yaml');
  const integers = ['S', 'causal'];
  const text = edited(
    edited(readFileSync(manifest, 'utf8'), 'grid: [1, 1, 1]', 'grid: ["ceil(S / 64)", "B * H", 1]'),
    'shared_bytes: 0',
    'shared_bytes: 24576',
  ).replaceAll(/\{ int32: 0 \}(?=.*integer \.u32)/g, () => integers.shift()!);
  writeFileSync(manifest, edited(text, 'launches:', 'limits: [{ require: D == 64, because: tiles }]\nlaunches:'));
  const { exitCode, stderr } = home.faTui(['verify', folder, ...CASE]);
  expect(exitCode, stderr).toBe(0);
});

test('PTX of 100 MB is refused because of its size, before it is sent or read as a draft', () => {
  const folder = changed('huge', 'attention.ptx', (text) => text + '// a comment\n'.repeat(8_000_000));
  const drafted = ['new', join(home.path, 'of_huge'), '--from-ptx', join(folder, 'attention.ptx')];
  for (const args of [drafted, ['verify', folder, ...CASE]]) {
    const { exitCode, stderr } = home.faTui(args);
    expect([exitCode, stderr], args[0]).toEqual([2, expect.stringMatching(/at most \d+ MiB/)]);
  }
});

test.skipIf(noPtx)('PTX with 10,000 entries is a finding', () => {
  const empty = (index: number): string => `.visible .entry unused${index}()\n{\n\tret;\n}\n`;
  const others = Array.from({ length: 10_000 }, (_, index) => empty(index)).join('');
  const after = '\t.section\t.debug_abbrev';
  const { finding } = findingOf(
    changed('entries', 'attention.ptx', (text) => edited(text, after, `${others}${after}`)),
  );
  expect([FindingKind[finding.kind], finding.message]).toEqual([
    'COMPILE_FAILED',
    expect.stringContaining('must have at most 1000 entries, got 10001'),
  ]);
});

test('a link next to the PTX whose target is not a source is refused, not copied', () => {
  writeFileSync(join(home.path, 'id_rsa'), 'a key\n');
  const folder = changed('linked', 'attention.ptx', (text) => edited(text, '"standard.py"', '"linked.py"'));
  symlinkSync('../id_rsa', join(folder, 'linked.py'));
  for (const args of [
    ['new', join(home.path, 'copied'), '--from-ptx', join(folder, 'attention.ptx')],
    ['verify', folder, ...CASE],
  ]) {
    const { exitCode, stderr } = home.faTui(args);
    expect([exitCode, stderr], args[0]).toEqual([2, expect.stringContaining('linked.py is a link that must lead to')]);
  }
});

test.skipIf(noPtx)('sources that the PTX names outside its folder are not read', () => {
  const secret = join(home.path, 'secret.py');
  writeFileSync(secret, 'token = 1\n');
  const folder = changed('outside', 'attention.ptx', (text) =>
    edited(edited(text, '"standard.py"', JSON.stringify(secret)), '"attention.py"', '"../secret.py"'),
  );
  const { result } = findingOf(folder);
  const names = result.variants[0]!.build!.artifacts.map(({ fileName }) => fileName);
  expect(names.filter((name) => name.endsWith('.py'))).toEqual([]);
});

test.skipIf(noPtx).each(
  inFull<[string, (ptx: string) => string]>(
    [
      ['a file that is not declared', (ptx) => ptx.replaceAll('\t.loc\t1 ', '\t.loc\t77 ')],
      ['lines that the file does not have', (ptx) => ptx.replaceAll(/\t\.loc\t1 (\d+)/g, '\t.loc\t1 4$100000')],
      [
        'a file of the host',
        (ptx) => ptx.replace('"attention.py"', '"../../../etc/passwd"').replaceAll('attention.py:', '/etc/passwd:'),
      ],
    ],
    ([name]) => name === 'a file of the host',
  ),
)('PTX whose .loc names %s runs, and its profile shows no lines', (name, change) => {
  const folder = changed(name.replaceAll(' ', '_'), 'attention.ptx', change);
  const { exitCode, stdout, stderr } = home.faTui(['profile', folder, '--shape', '1x1x32x64', '--lines']);
  expect(exitCode, stderr).toBe(0);
  expect(stdout).not.toMatch(/root:|def attention/);
});

test('the manifest of a .ptx may not have settings for a C++ compiler', () => {
  const folder = changed('parameters', 'kernel.yaml', (text) =>
    edited(
      edited(text, 'constants:', 'parameters:\n  TILE: { values: [1], default: 1, about: x }\nconstants:'),
      'toggle:',
      'compile: { flags: [-std=c++20] }\ntoggle:',
    ),
  );
  const { exitCode, stderr } = home.faTui(['verify', folder, ...CASE]);
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining('parameters: must be empty: a .ptx source is compiled'),
  ]);
  expect(stderr).toContain('must be flags of ptxas alone');
});

/** A folder whose source is the example's machine code for sm_90a. */
function machineCode(name: string, { change = (text: string) => text, arch = 'sm_90a' } = {}): string {
  const folder = changed(name, 'kernel.yaml', (text) =>
    change(
      edited(edited(text, /source: attention\.ptx.*/, 'source: attention.cubin'), 'min_arch: sm_80', 'arch: sm_90a'),
    ),
  );
  if (missing('nvcc')) return folder;
  const command = `PATH="$PATH:/usr/local/cuda/bin" nvcc -cubin -lineinfo -arch=${arch} -o attention.cubin attention.ptx`;
  execFileSync('sh', ['-c', command], { cwd: folder });
  return folder;
}

test('a cubin needs a GPU: the emulator refuses it at once, and names the alternative', () => {
  const { exitCode, stderr } = home.faTui(['verify', machineCode('cubin'), ...CASE]);
  expect([exitCode, stderr]).toEqual([
    3,
    expect.stringMatching(/machine code \(attention\.cubin\).*run it on a GPU, or name the PTX/),
  ]);
});

test('the manifest of a cubin may not have settings for a compiler', () => {
  const folder = machineCode('cubin_flags', {
    change: (text) => edited(text, 'toggle:', "compile: { maxrregcount: 64, flags: ['-Xptxas=-O3'] }\ntoggle:"),
  });
  const { exitCode, stderr } = home.faTui(['verify', folder, ...CASE]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('must be 0: a .cubin source is compiled already')]);
  expect(stderr).toContain('must be empty: a .cubin source is compiled already');
});

test.skipIf(missing('nvcc'))('a cubin is built as it is, with its entries and the Python it was compiled from', () => {
  const folder = machineCode('cubin_built');
  const { response, exitCode, stderr } = home.runJson(['build', folder]);
  expect(exitCode, stderr).toBe(0);
  const { entries, artifacts } = response.result!.variants[0]!.build!;
  expect(entries.map(({ entry, registersPerThread }) => [entry, registersPerThread > 16])).toEqual([
    ['attention', true],
  ]);
  const { sha256 } = artifacts.find(({ fileName }) => fileName.endsWith('.sm_90a.cubin'))!;
  expect(artifacts.map(({ fileName }) => fileName)).toContain('attention.py');
  expect(sha256).toBe(
    createHash('sha256')
      .update(readFileSync(join(folder, 'attention.cubin')))
      .digest('hex'),
  );
});

test.skipIf(missing('nvcc'))('new --from refuses a kernel whose source is a cubin', () => {
  const { exitCode, stderr } = home.faTui(['new', join(home.path, 'copy'), '--from', machineCode('cubin_original')]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('attention.cubin is machine code: copy the folder')]);
});

test.skipIf(missing('nvcc')).each(
  inFull<[string, () => string, string, string]>(
    [
      [
        'whose parameters do not match',
        () => machineCode('cubin_arguments', { change: (text) => edited(text, 'scale, causal,', 'causal,') }),
        'WRONG_ARGUMENTS',
        'takes 9 parameters (8, 8, 8, 8, 4, 4, 4, 8, 8 bytes)',
      ],
      [
        'for another architecture',
        () => machineCode('cubin_arch', { arch: 'sm_89' }),
        'COMPILE_FAILED',
        'is built for sm_89, and this build is for sm_90a',
      ],
      [
        'that is cut off',
        () => {
          const folder = machineCode('cubin_cut');
          truncateSync(join(folder, 'attention.cubin'), 5000);
          return folder;
        },
        'COMPILE_FAILED',
        'is it cut off?',
      ],
    ],
    ([name]) => name === 'for another architecture',
  ),
)('a cubin %s is a finding', (_, folder, kind, words) => {
  const { response, exitCode } = home.runJson(['build', folder()]);
  const [finding] = response.result!.variants[0]!.findings;
  expect([exitCode, FindingKind[finding!.kind], finding!.message]).toEqual([1, kind, expect.stringContaining(words)]);
});

test('a kernel of PTX cannot be exported as CUDA C++, and the answer says so', () => {
  const { exitCode, stderr } = home.faTui(['export', KERNEL, '--hf', join(home.path, 'attention_hf')]);
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringContaining('its source is attention.ptx, and this format hands on CUDA C++: --torch and --wheel'),
  ]);
});

test.skipIf(missing('nvcc'))('a kernel of PTX is exported to PyTorch as machine code', () => {
  const file = join(home.path, 'attention_op.py');
  const { exitCode, stderr } = home.faTui(['export', KERNEL, '--torch', file]);
  expect(exitCode, stderr).toBe(0);
  expect(readFileSync(file, 'utf8')).toMatch(
    /\("float32", .*\n.*\("int32", .*\n *\("null", None\),\n *\("null", None\),/,
  );
});
