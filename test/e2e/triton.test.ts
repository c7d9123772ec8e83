/** Kernels in Triton. The runner compiles them in the sandbox, because compiling runs the kernel's Python. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FindingKind, type Finding } from '@flashcore/shared/contract';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const noPtx = missing('nvcc') && missing('clang');
const noTriton = missing('triton') || missing('bubblewrap') || noPtx;
const CASE = ['--shape', '1x1x77x64c', '--seeds', '2'];

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** The example's Python with its head dimension renamed to something that is not an axis of the problem. */
const SOURCE = join(ROOT, 'test/fixtures/triton/attention');
const MANIFEST = readFileSync(join(SOURCE, 'kernel.yaml'), 'utf8');
const PYTHON = readFileSync(join(SOURCE, 'kernel.py'), 'utf8');

/** A kernel folder with changed Python. */
function kernel(name: string, change: (text: string) => string = (text) => text, manifest = MANIFEST): string {
  const folder = join(home.path, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'kernel.yaml'), manifest);
  writeFileSync(join(folder, 'kernel.py'), change(PYTHON));
  return folder;
}

function findingOf(folder: string, method = 'verify'): { finding: Finding; exitCode: number | null } {
  const { response, exitCode, stderr } = home.runJson([method, folder, ...(method === 'verify' ? CASE : [])]);
  const finding = response.result!.variants[0]!.findings[0]!;
  expect(finding, stderr).toBeDefined();
  return { finding, exitCode };
}

const lineOf = (text: string): number => PYTHON.split('\n').findIndex((each) => each.includes(text)) + 1;

test.skipIf(noPtx)('without Triton on the host, the error names what to install and the alternative', async () => {
  await using bare = new Home({ FLASHCORE_PYTHON: '/bin/false' });
  const folder = join(bare.path, 'kernel');
  cpSync(kernel('bare'), folder, { recursive: true });
  const { exitCode, stdout } = bare.faTui(['verify', folder, ...CASE]);
  expect(exitCode).toBe(3);
  expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(/pip install triton.*FLASHCORE_PYTHON.*fa-tui compile/);
});

test('compile without Triton on this machine says what to install, and writes nothing', () => {
  const folder = kernel('uncompiled');
  const to = join(home.path, 'compiled_by_nothing');
  const { exitCode, stderr } = home.faTui(['compile', folder, '--to', to], { env: { FLASHCORE_PYTHON: '/bin/false' } });
  expect([exitCode, stderr]).toEqual([
    3,
    expect.stringMatching(/\/bin\/false has no Triton: run .*pip install triton/),
  ]);
  expect(existsSync(to)).toBe(false);
});

const REFUSED: [title: string, args: string[], words: RegExp][] = [
  ['a missing --to', [SOURCE], /--to <folder>: give the folder to make/],
  ['a kernel of the runner', ['fa_v1_baseline', '--to', 'made'], /must be a folder, because its Python runs here/],
  ['CUDA C++', [join(ROOT, 'kernels/fa_v1_baseline'), '--to', 'made'], /must be Python for Triton/],
  ['a folder that exists', [SOURCE, '--to', join(ROOT, 'test/e2e')], /exists already|must be of lower-case/],
  ['an unknown parameter', [SOURCE, '--to', 'made', '--set', 'TILE=3'], /TILE/],
];

test.each(inFull(REFUSED, ([title]) => title === 'CUDA C++'))('compile is refused for %s', (_, args, words) => {
  const { exitCode, stderr } = home.faTui(['compile', ...args], { cwd: home.path });
  expect([exitCode, stderr]).toEqual([2, expect.stringMatching(words)]);
});

test.skipIf(missing('triton') || noPtx)(
  'compile makes a folder of PTX that a runner without Triton verifies',
  async () => {
    const to = join(home.path, 'compiled');
    const made = home.faTui(['compile', SOURCE, '--to', to, '--set', 'BLOCK_M=32']);
    expect(made.exitCode, made.stderr).toBe(0);
    await using bare = new Home({ FLASHCORE_PYTHON: '/bin/false' });
    const { response, exitCode, stderr } = bare.runJson(['verify', to, ...CASE]);
    expect(exitCode, stderr).toBe(0);
    const { artifacts } = response.result!.variants[0]!.build!;
    expect(artifacts.map(({ fileName }) => fileName)).toEqual(expect.arrayContaining(['kernel.ptx', 'kernel.py']));
  },
);

test.skipIf(missing('triton'))('a refusal by Triton names the line, and compile writes nothing', () => {
  const folder = kernel('uncompilable', (text) => edited(text, 'tl.trans(k)', 'tl.turn(k)'));
  const to = join(home.path, 'never_compiled');
  const { exitCode, stderr } = home.faTui(['compile', folder, '--to', to]);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining(`kernel.py:${lineOf('tl.trans(k)')}:`)]);
  expect(existsSync(to)).toBe(false);
});

test('a manifest whose source is Python must name the language', () => {
  const unsaid = kernel('unsaid', undefined, edited(MANIFEST, 'language: triton\n', ''));
  const { exitCode, stderr } = home.faTui(['verify', unsaid, ...CASE]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('language: must be triton for a source named *.py')]);
});

test.skipIf(noTriton)('Triton compiles a variant by its parameters, with the shared memory that it requests', () => {
  const folder = kernel('variants');
  for (const parameters of inFull(
    [['BLOCK_M=32'], ['NUM_WARPS=8', 'BLOCK_M=64']],
    ([first]) => first === 'BLOCK_M=32',
  )) {
    const set = parameters.flatMap((each) => ['--set', each]);
    const { response, exitCode, stderr } = home.runJson(['verify', folder, ...CASE, ...set]);
    expect(exitCode, stderr).toBe(0);
    const build = response.result!.variants[0]!.build!;
    expect(build.runs.map(({ compiler }) => compiler)).toContain('triton');
    expect(build.artifacts.map(({ fileName }) => fileName)).toContain('kernel.py');
  }
});

/** Makes its tensor descriptors, for which Triton takes scratch memory on sm_90. */
const DESCRIPTORS = `import triton
import triton.language as tl


@triton.jit
def _softmax(X, Y, ROWS, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    x = tl.make_tensor_descriptor(X, [ROWS, WIDTH], [WIDTH, 1], [BLOCK, WIDTH])
    y = tl.make_tensor_descriptor(Y, [ROWS, WIDTH], [WIDTH, 1], [BLOCK, WIDTH])
    at = tl.program_id(0) * BLOCK
    values = x.load([at, 0]).to(tl.float32)
    values = tl.exp(values - tl.max(values, 1)[:, None])
    y.store([at, 0], (values / tl.sum(values, 1)[:, None]).to(tl.float16))
`;

test.skipIf(noTriton)(
  'a kernel that makes tensor descriptors gets scratch memory, here and after fa-tui compile',
  () => {
    const folder = join(home.path, 'descriptors');
    mkdirSync(folder);
    writeFileSync(join(folder, 'kernel.py'), DESCRIPTORS);
    writeFileSync(
      join(folder, 'kernel.yaml'),
      `id: descriptors
title: Softmax by tensor descriptors
lesson: "descriptors take scratch memory"
problem: softmax
source: kernel.py
language: triton
arch: sm_90
math: { inputs: fp16, accumulate: fp32 }
limits: [{ require: "N == WIDTH", because: "a tile is as wide as a row" }]
constants: { BLOCK: 16, WIDTH: 64, NUM_WARPS: 4 }
launches:
  - entry: _softmax
    grid: ["ceil(rows / BLOCK)", 1, 1]
    block: [128, 1, 1]
    arguments: [X, Y, rows]
toggle: "there is no product for tensor cores"
`,
    );
    const to = join(home.path, 'descriptors_ptx');
    const compiled = home.faTui(['compile', folder, '--to', to]);
    expect(compiled.exitCode, compiled.stderr).toBe(0);
    expect(readFileSync(join(to, 'kernel.yaml'), 'utf8')).toMatch(/triton_scratch_0: \d+ \* /);
    for (const each of [folder, to]) {
      const { exitCode, stderr } = home.faTui(['verify', each, '--shape', 'rows=40,N=64', '--seeds', '1']);
      expect(exitCode, stderr).toBe(0);
      expect(stderr).toContain('every access to memory watched, no race found');
    }
  },
);

test.skipIf(noTriton)('tune and evolve vary the options of Triton and the tiles', () => {
  const folder = join(ROOT, 'test/fixtures/triton/matmul');
  const shape = ['--shape', 'M=64,N=64,K=64'];
  const set = ['BLOCK=16,32', 'NUM_WARPS=2,4', 'NUM_STAGES=1,2'].flatMap((each) => ['--set', each]);
  const tuned = home.faTui(['tune', folder, ...shape, ...set, '--budget', '6']);
  expect(tuned.exitCode, tuned.stderr).toBe(0);
  expect(tuned.stdout).toContain('ranked by registers, then shared memory: emulator times are not GPU times');
  expect(tuned.stdout.match(/BLOCK=\d+ NUM_WARPS=\d NUM_STAGES=\d .* yes$/gm)).toHaveLength(6);
  const proposer = `"${process.execPath}" examples/proposers/parameters.mjs`;
  const evolved = home.faTui(['evolve', folder, ...shape, '--proposer', proposer, '--trials', '1', '--seeds', '1']);
  expect(evolved.stderr).toMatch(/trial 1 from 0: valid .*, (BLOCK|NUM_WARPS|NUM_STAGES) \d+ -> \d+/);
});

test.skipIf(noTriton)('Python that leaves a forked process running is compiled', () => {
  const forks = `import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n\n\n${BEGIN}`;
  const began = performance.now();
  const { exitCode, stderr } = home.runJson(['build', kernel('forks', (text) => edited(text, BEGIN, forks))]);
  expect(exitCode, stderr).toBe(0);
  expect(performance.now() - began).toBeLessThan(60_000);
});

test.skipIf(noTriton)('a store without its mask is out of bounds, and the finding names its line of the Python', () => {
  const folder = kernel('unmasked', (text) => edited(text, /(tl\.store\(.*), mask=rows.*\)$/m, '$1)'));
  const { finding } = findingOf(folder);
  expect([FindingKind[finding.kind], finding.location]).toMatchObject([
    'OUT_OF_BOUNDS',
    { file: 'kernel.py', line: lineOf('tl.store(') },
  ]);
});

test.skipIf(noTriton)('an error from Triton has its line and column of the Python', () => {
  const { finding, exitCode } = findingOf(kernel('refused', (text) => edited(text, 'tl.trans(k)', 'tl.turn(k)')));
  expect([exitCode, FindingKind[finding.kind], finding.location]).toMatchObject([
    1,
    'COMPILE_FAILED',
    { file: 'kernel.py', line: lineOf('tl.trans(k)') },
  ]);
  expect(finding.message).toContain('turn');
});

const BEGIN = '@triton.jit';
test.skipIf(noTriton).each(
  inFull<[string, string, RegExp]>(
    [
      ['writes outside its folder', 'open("/usr/flashcore-was-here", "w")', /Read-only file system|Permission denied/],
      ['opens a socket', 'import socket; socket.socket()', /PermissionError/],
      ['allocates 100 GiB', 'x = bytearray(100 * 2**30)', /MemoryError/],
      ['prints 1 GB', 'print("x" * 10**9)', /print at most|MemoryError/],
      ['ends Python', 'import os; os._exit(0)', /before Triton had compiled|left nothing/],
      ['kills itself', 'import os; os.kill(os.getpid(), 9)', /signal 9/],
      ['patches Triton', 'triton.compile = lambda *_, **__: 1 / 0', /division by zero/],
      ['does not parse', 'def broken(:', /SyntaxError/],
    ],
    ([name]) => name === 'opens a socket',
  ),
)('Python that %s is a finding, and the runner keeps running', (name, statement, words) => {
  const folder = kernel(name.replaceAll(' ', '_'), (text) => edited(text, BEGIN, `${statement}\n\n\n${BEGIN}`));
  const { finding, exitCode } = findingOf(folder, 'build');
  expect([exitCode, FindingKind[finding.kind], finding.message]).toEqual([
    1,
    'COMPILE_FAILED',
    expect.stringMatching(words),
  ]);
  expect(existsSync('/usr/flashcore-was-here')).toBe(false);
});
