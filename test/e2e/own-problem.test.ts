/**
 * A user's own problem in the user's folder: no file of flashcore changes, and everything that handles kernels knows
 * the problem.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT, type CommandResult } from '../support/home.ts';
import { openScreen } from '../support/screens.ts';

const LIMIT_MS = 180_000;
const CASE = ['--shape', 'rows=5,N=64'];
const home = new Home();
const repository = join(home.path, 'kernels');
const problem = join(repository, 'problems/our_norm');
const kernel = join(repository, 'our_norm_kernel');

beforeAll(() => {
  mkdirSync(join(repository, 'problems'), { recursive: true });
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  cpSync(join(ROOT, 'problems/rmsnorm'), problem, { recursive: true });
  edit(join(problem, 'problem.yaml'), 'id: rmsnorm', 'id: our_norm');
  cpSync(join(ROOT, 'examples/kernels/rmsnorm'), kernel, { recursive: true });
  writeFileSync(join(kernel, 'NOTES.md'), 'The first kernel of our norm.\n');
  edit(join(kernel, 'kernel.yaml'), 'id: rmsnorm', 'id: our_norm_kernel');
  edit(join(kernel, 'kernel.yaml'), 'problem: rmsnorm', 'problem: our_norm');
});
afterAll(() => home[Symbol.asyncDispose]());

const faTui = (...args: string[]): CommandResult => home.faTui(args, { cwd: repository });

function edit(file: string, was: string, is: string): void {
  const text = readFileSync(file, 'utf8');
  expect(text).toContain(was);
  writeFileSync(file, text.replace(was, is));
}

/** Replaces one text in a file by another, like a user who edits a file that a runner has already read. */
function edited<Result>(file: string, [was, is]: readonly [string, string], body: () => Result): Result {
  edit(file, was, is);
  try {
    return body();
  } finally {
    edit(file, is, was);
  }
}

const jobOf = (stdout: string): string => /jobs\/[0-9a-f-]{36}/.exec(stdout)![0];

test('a kernel of the problem is verified, timed, accepted and reported', { timeout: LIMIT_MS }, () => {
  const run = faTui('run', './our_norm_kernel');
  expect([run.exitCode, run.stdout]).toEqual([0, expect.stringContaining('our_norm_kernel')]);
  const job = jobOf(run.stdout);
  const accepted = faTui('accept', job, '--note', 'first');
  expect([accepted.exitCode, accepted.stderr]).toEqual([0, expect.any(String)]);
  const board = faTui('leaderboard', '--problem', 'our_norm');
  expect([board.exitCode, board.stdout]).toEqual([
    0,
    expect.stringContaining('our_norm N=4096,rows=4096 (Llama-3 8B 4k tokens) hot'),
  ]);
  expect(faTui('report', job).stdout).toContain(String.raw`our\_norm\_kernel`);
});

test(
  "a kernel of the problem is benchmarked, tuned and exported, and the problem's mutants are found",
  { timeout: LIMIT_MS },
  () => {
    const short = [...CASE, '--samples', '10', '--max-seconds', '0.2'];
    const bench = faTui('bench', './our_norm_kernel', ...short);
    expect([bench.exitCode, bench.stdout]).toEqual([0, expect.stringContaining('N=64,rows=5')]);
    const manifest = join(kernel, 'kernel.yaml');
    const parameter = 'parameters:\n  NUM_THREADS: { values: [128, 256], default: 256, about: threads }\n';
    edited(manifest, ['constants:\n  NUM_THREADS: 256\n', ''], () =>
      edited(manifest, ['parameters:\n', parameter], () => {
        const tune = faTui('tune', './our_norm_kernel');
        expect([tune.exitCode, tune.stderr]).toEqual([0, expect.any(String)]);
        expect(tune.stdout).toContain('2 variants');
      }),
    );
    const file = join(home.path, 'our_norm.py');
    const exported = faTui('export', './our_norm_kernel', '--torch', file);
    expect([exported.exitCode, exported.stderr]).toEqual([0, expect.any(String)]);
    expect(readFileSync(file, 'utf8')).toContain('def our_norm(X, W):');
    const check = faTui('problem', 'check', 'our_norm');
    expect([check.exitCode, check.stdout]).toEqual([
      0,
      expect.stringMatching(/our_norm: the cases find all \d+ mutants, and all 6 symmetries hold/),
    ]);
  },
);

test(
  "the terminal program shows the problem's cases, and the error map of its output",
  { timeout: LIMIT_MS },
  async () => {
    const wrong = join(home.path, 'wrong_norm');
    cpSync(kernel, wrong, { recursive: true });
    edit(join(wrong, 'kernel.yaml'), 'id: our_norm_kernel', 'id: wrong_norm');
    edit(join(wrong, 'rmsnorm.cu'), '* factor *', '* (n == 3 ? 0.0f : factor) *');
    const { exitCode, stdout } = faTui('verify', wrong, ...CASE, '--seed', '5c0e', '--json');
    const { result } = JSON.parse(stdout) as { result: { variants: { findings: { inputs: object[] }[] }[] } };
    expect([exitCode, result.variants[0]?.findings[0]?.inputs]).toEqual([
      1,
      [{ seed: '5c0e', distribution: 'normal' }],
    ]);
    expect(faTui('verify', wrong, ...CASE, '--seed', '5c0e').stdout).toContain('normal: --seed 5c0e@normal');
    const terminal = openScreen(home, { env: { FLASHCORE_PROBLEMS: join(repository, 'problems') } });
    try {
      await terminal.waitFor(/wrong_norm/);
      terminal.type('2');
      await terminal.waitFor(/N=64,rows=5/);
      // An element that should be near zero may be within the tolerance.
      await terminal.waitFor(/[1-5] of 320 elements of Y/);
      await terminal.waitFor(/X farthest beyond its limit/);
      terminal.type('q');
      expect(await terminal.exit).toBe(0);
    } finally {
      terminal.kill('SIGKILL');
    }
  },
);

test('a symmetry that a reference.cpp does not have is refused', { timeout: LIMIT_MS }, () => {
  const symmetry = ['{ flip: N, of: [W, Y] }', '{ flip: N, of: [W] }'] as const;
  const { exitCode, stdout } = edited(join(problem, 'problem.yaml'), symmetry, () =>
    faTui('problem', 'check', 'our_norm'),
  );
  expect([exitCode, stdout]).toEqual([
    1,
    expect.stringMatching(
      /our_norm\/problem\.yaml:\d+: symmetries\[4\] \{ flip: N, of: \[W\] \} does not hold on .*Y\[\d+, \d+\] = /,
    ),
  ]);
  expect(stdout.match(/does not hold/g)).toHaveLength(1);
});

/** Weighted columns, with a reference in Python. Numbers of both inputs that are doubled quadruple the output. */
const WEIGHTED = {
  'problem.yaml': `id: weighted
title: Y = X * W
axes: { rows: { about: rows }, N: { about: columns } }
tensors:
  X: { in: [rows, N], dtype: [fp16] }
  W: { in: [N], dtype: same_as(X) }
  Y: { out: [rows, N], dtype: same_as(X) }
symmetries: [{ permute: N }, { double: N }, { flip: N, of: [W, Y] }]
mutants: { zeros: { tensor: Y, constant: 0, about: nothing } }
reference: { op: own }
work: { flops: rows * N }
`,
  'cases.yaml': `tolerances: { parity: { atol: 1.0e-3, rtol: 1.0e-3 } }
defaults: { set: parity, tolerance: parity, seeds: 1, distribution: normal }
distributions: { normal: { q: normal, k: normal, v: normal, about: normal } }
sets: { parity: [{ rows: 2, N: 3 }], canonical: [{ rows: 2, N: 3 }], emulated: [{ rows: 2, N: 3 }] }
`,
  'reference.py': `def reference(c):
    c.set_output("Y", c.input("X") * c.input("W"))
`,
};

test.skipIf(missing('python3-torch') || missing('bubblewrap'))(
  'a symmetry that a reference.py does not have is refused',
  { timeout: LIMIT_MS },
  () => {
    const folder = join(home.path, 'python/weighted');
    mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(WEIGHTED)) writeFileSync(join(folder, name), text);
    const env = { FLASHCORE_PROBLEMS: join(home.path, 'python'), FLASHCORE_PYTHON: '/usr/bin/python3' };
    const { exitCode, stdout } = home.faTui(['problem', 'check', 'weighted'], { env });
    const [refused, ...more] = stdout.split('\n').filter((line) => line.includes('does not hold'));
    expect([exitCode, refused, more]).toEqual([
      1,
      expect.stringMatching(
        /weighted\/problem\.yaml:8: symmetries\[1\] \{ double: N, of: \[X, W, Y\] \} .* N=3,rows=2: .* Y\[0, \d\] = /,
      ),
      [],
    ]);
  },
);

test('the runner uses an edited reference.cpp and problem.yaml at once', { timeout: LIMIT_MS }, () => {
  edited(join(problem, 'reference.cpp'), ['* factor *', '* 2 * factor *'], () => {
    const { exitCode, stdout } = faTui('verify', './our_norm_kernel', ...CASE);
    expect([exitCode, stdout]).toEqual([1, expect.stringContaining('WRONG RESULT')]);
  });
  edited(join(problem, 'problem.yaml'), ['W: { in: [N], dtype: same_as(X)', 'W: { in: [N], dtype: same_as(Z)'], () => {
    const { exitCode, stderr } = faTui('verify', './our_norm_kernel', ...CASE);
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringMatching(/our_norm\/problem\.yaml:\d+: tensors\.W\.dtype: unknown tensor \"Z\"/),
    ]);
  });
  expect(faTui('verify', './our_norm_kernel', ...CASE)).toMatchObject({ exitCode: 0 });
});

/** How the reference may end. A limit of its own keeps the test short; other problems have 20 s. */
const HANGS = ['auto Y =', 'for (volatile int at = 0; at < 1;) {}\n  auto Y ='] as const;
const LIMIT_S = 3;

test('a job behind one whose reference hangs waits for no more than its limit', { timeout: LIMIT_MS }, async () => {
  await using host = new Home();
  const { address } = await host.startDaemon();
  const remote = (...args: string[]): CommandResult => faTui(...args, '--seeds', '1', '--runner', address);
  const shape = ['--shape', '1x1x64x64'];
  // Compiles what the next two need.
  expect(remote('verify', './our_norm_kernel', ...CASE)).toMatchObject({ exitCode: 0 });
  expect(remote('verify', 'flashcore_v5', ...shape)).toMatchObject({ exitCode: 0 });
  const detached = edited(join(problem, 'reference.cpp'), HANGS, () =>
    edited(join(problem, 'problem.yaml'), ['{ op: own }', `{ op: own, limit_s: ${LIMIT_S} }`], () =>
      remote('verify', './our_norm_kernel', ...CASE, '--detach'),
    ),
  );
  const began = performance.now();
  expect(remote('verify', 'flashcore_v5', ...shape)).toMatchObject({ exitCode: 0 });
  expect((performance.now() - began) / 1000).toBeLessThan(60);
  const { exitCode, stdout } = faTui('watch', jobOf(detached.stdout), '--runner', address);
  expect([exitCode, stdout]).toEqual([
    2,
    expect.stringMatching(/gave .*\s+SIGKILL,\s+after\s+the\s+limit\s+of\s+3\s+s\s.*limit_s/s),
  ]);
});

const HOSTILE: [what: string, code: string, said: RegExp][] = [
  ['prints', 'std::printf("hello");', /prints "hello"/],
  ['returns too little', 'if (c.has_output("Y")) return;', /set 0\s+of\s+320\s+elements\s+of\s+Y/],
  ['forks', 'if (fork() == 0) sleep(100);', /must\s+start\s+no\s+other\s+process/],
  ['reads /etc/passwd', 'if (!std::ifstream("/etc/passwd").good()) throw 1;', /instance of 'int'/],
];

test.skipIf(missing('bubblewrap')).each(HOSTILE)(
  'a reference that %s is refused, and the runner goes on',
  { timeout: LIMIT_MS },
  (_, code, said) => {
    const file = join(problem, 'reference.cpp');
    const refused = edited(file, ['#include', '#include <fstream>\n#include <unistd.h>\n#include'], () =>
      edited(file, ['auto Y =', `${code}\n  auto Y =`], () =>
        edited(join(problem, 'problem.yaml'), ['{ op: own }', `{ op: own, limit_s: ${LIMIT_S} }`], () =>
          faTui('verify', './our_norm_kernel', ...CASE, '--seeds', '1'),
        ),
      ),
    );
    expect([refused.exitCode, refused.stdout]).toEqual([2, expect.stringMatching(said)]);
    expect(refused.stdout).not.toContain('root:');
    expect(faTui('verify', './our_norm_kernel', ...CASE, '--seeds', '1')).toMatchObject({ exitCode: 0 });
  },
);

test('a wrong definition ends problem check as it ends verify, with 2', { timeout: LIMIT_MS }, () => {
  const codes = () => [faTui('verify', './our_norm_kernel', ...CASE), faTui('problem', 'check', 'our_norm')];
  const mistakes = [
    ['problem.yaml', 'flops:', 'flop:', /problem\.yaml/],
    ['cases.yaml', 'rows: 7', 'rows: 0', /cases\.yaml:\d+/],
    ['reference.cpp', '* factor *', '* factr *', /factr/],
    ['reference.cpp', 'auto Y =', 'throw 1;\n  auto Y =', /the reference of\s+our_norm gave 0 of/],
  ] as const;
  for (const [file, was, is, message] of mistakes)
    edited(join(problem, file), [was, is], () => {
      for (const { exitCode, stdout, stderr } of codes())
        expect([exitCode, stdout + stderr]).toEqual([2, expect.stringMatching(message)]);
    });
});

test('a missing reference and an impossible case are refused before a job exists', { timeout: LIMIT_MS }, () => {
  const refused = (message: RegExp): void => {
    const { exitCode, stdout, stderr } = faTui('verify', './our_norm_kernel');
    expect([exitCode, stdout, stderr]).toEqual([2, '', expect.stringMatching(message)]);
    expect(stderr).not.toContain('jobs/');
  };
  const [reference, away] = [join(problem, 'reference.cpp'), join(home.path, 'reference.cpp')];
  renameSync(reference, away);
  refused(/our_norm\/reference\.cpp: must be there/);
  renameSync(away, reference);
  edited(join(problem, 'cases.yaml'), ['rows: 7', 'rows: 0'], () =>
    refused(/our_norm\/cases\.yaml:\d+: sets\.\w+\[\d+\]\.rows: must be an integer of 1/),
  );
});

test('without its folder the problem is unknown, and the answer says how to make it known', () => {
  const elsewhere = home.faTui(['verify', kernel, ...CASE], { cwd: home.path });
  expect([elsewhere.exitCode, elsewhere.stderr]).toEqual([
    2,
    expect.stringMatching(/unknown problem "our_norm".*problems in flashcore\.yaml, \$FLASHCORE_PROBLEMS/s),
  ]);
});

test(
  'a runner without the problem judges by the definition that comes with the kernel',
  { timeout: LIMIT_MS },
  async () => {
    await using host = new Home();
    const { address } = await host.startDaemon();
    const remote = (...args: string[]): CommandResult => faTui(...args, '--runner', address);
    const run = remote('run', './our_norm_kernel');
    expect([run.exitCode, run.stdout + run.stderr]).toEqual([
      0,
      expect.stringContaining('not ranked: the problem our_norm comes from the client'),
    ]);
    expect(remote('accept', jobOf(run.stdout), '--over', 'none').stderr).toContain('serve --problems FOLDER');
    edited(join(problem, 'reference.cpp'), ['* factor *', '* 2 * factor *'], () => {
      const { exitCode, stdout } = remote('verify', './our_norm_kernel', ...CASE);
      expect([exitCode, stdout]).toEqual([1, expect.stringContaining('WRONG RESULT')]);
    });
    edited(join(problem, 'reference.cpp'), ['* factor *', '* factr *'], () => {
      const { exitCode, stderr } = remote('verify', './our_norm_kernel', ...CASE);
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('factr')]);
    });
    expect(remote('verify', './our_norm_kernel', ...CASE)).toMatchObject({ exitCode: 0 });
  },
);

test('a copy of a kernel solves the problem of its original', () => {
  const made = faTui('new', 'our_copy', '--from', './our_norm_kernel');
  expect(made.exitCode, made.stderr).toBe(0);
  expect(readFileSync(join(repository, 'our_copy/kernel.yaml'), 'utf8')).toContain('problem: our_norm\n');
  expect(existsSync(join(repository, 'our_copy/problem'))).toBe(false);
});

test('the first kernel of a problem compiles and is wrong until somebody writes it', { timeout: LIMIT_MS }, () => {
  const made = faTui('new', 'of_our_norm', '--problem', 'our_norm');
  expect([made.exitCode, made.stdout]).toEqual([
    0,
    expect.stringMatching(
      /the first kernel of our_norm: NOTES.md, kernel.yaml, of_our_norm.cu\n[^]*TODO[^]*fa-tui verify/,
    ),
  ]);
  const verify = () => faTui('verify', './of_our_norm', ...CASE);
  const empty = verify();
  expect([empty.exitCode, empty.stdout]).toEqual([
    1,
    expect.stringMatching(/320 of 320 elements of Y were never written[^]*No launch wrote to Y: compute its elements/),
  ]);
  const row = `const half* x = X + element / N * N;
  float squares = 0.0f;
  for (int n = 0; n < N; ++n) squares += __half2float(x[n]) * __half2float(x[n]);
  const float factor = rsqrtf(squares / N + eps);
  Y[element] = __float2half(__half2float(X[element]) * factor * __half2float(W[element % N]));`;
  edit(join(repository, 'of_our_norm/of_our_norm.cu'), '// TODO: compute the element', `${row} // the element`);
  expect(verify()).toMatchObject({ exitCode: 0 });
  rmSync(join(repository, 'of_our_norm'), { recursive: true });
});

test('a new kernel of a problem is a copy of its simplest kernel', { timeout: LIMIT_MS }, () => {
  const made = faTui('new', 'of_decode', '--problem', 'attention_decode');
  expect([made.exitCode, made.stdout]).toEqual([0, expect.stringContaining('of_decode, a copy of decode_rows')]);
  const champion = /--champion (\S+)/.exec(made.stdout)![1]!;
  const shape = ['--shape', 'B=1,H=2,Hkv=1,Skv=64,D=64', '--samples', '10', '--max-seconds', '0.2'];
  const compared = faTui('bench', './of_decode', '--champion', champion, ...shape);
  expect([compared.exitCode, compared.stderr]).toEqual([0, expect.any(String)]);
  const unknown = faTui('new', 'of_nothing', '--problem', 'our_nrom');
  expect([unknown.exitCode, unknown.stderr]).toEqual([2, expect.stringContaining('our_nrom is not a problem here')]);
});

test('a case is chosen by its name, which tables, JSON and JUnit show', { timeout: LIMIT_MS }, () => {
  const junit = join(home.path, 'named.xml');
  const shapes = ['--shape', 'Llama-3 70B 3 tokens', '--shape', 'rows=5,N=64'];
  const verified = faTui('verify', './our_norm_kernel', ...shapes, '--seeds', '1', '--junit', junit);
  expect([verified.exitCode, verified.stdout]).toEqual([
    0,
    expect.stringMatching(/case +rows +N +verdict.*\n +Llama-3 70B 3 tokens +3 +8192 +✓ pass.*\n +5 +64 +✓ pass/),
  ]);
  expect(readFileSync(junit, 'utf8')).toContain('name="N=8192,rows=3 (Llama-3 70B 3 tokens)"');
  const unknown = faTui('verify', './our_norm_kernel', '--shape', 'Llama-3 70B 4 tokens');
  expect([unknown.exitCode, unknown.stderr]).toEqual([
    2,
    expect.stringContaining('did you mean "Llama-3 70B 3 tokens"'),
  ]);
});

test('problem list names the axes, dtypes, baselines and kernels, and shows the definition of one problem', () => {
  const { stdout } = faTui('problem', 'list', '--json');
  const { problems } = JSON.parse(stdout) as { problems: { id: string; kernels: string[] }[] };
  const kernels = Object.fromEntries(problems.map((each) => [each.id, each.kernels]));
  expect(kernels).toMatchObject({ our_norm: [], rmsnorm: ['rmsnorm'] });
  expect(kernels['attention_decode']?.[0]).toBe('decode_rows');
  expect(faTui('problem', 'list', 'attention').stdout).toMatch(/baselines +sdpa\n/);
  const one = faTui('problem', 'list', 'rmsnorm');
  expect([one.exitCode, one.stdout]).toEqual([
    0,
    expect.stringMatching(/rows +- +rows of X: tokens\n[^]*gpt-oss 129 tokens +129 +2880\n/),
  ]);
  expect(faTui('problem', 'list').stdout).toMatch(/rows \(rows of X: tokens\), N .*\n.*fp16[^]*\n +cases +\d+\n/);
});

test('$FLASHCORE_PROBLEMS may be relative, and no folder in it can contain a colon', { timeout: LIMIT_MS }, () => {
  const relative = home.faTui(['verify', kernel, ...CASE], {
    cwd: home.path,
    env: { FLASHCORE_PROBLEMS: 'kernels/problems' },
  });
  expect(relative.exitCode, relative.stderr).toBe(0);
  const colon = join(home.path, 'a:b');
  mkdirSync(join(colon, 'problems'), { recursive: true });
  writeFileSync(join(colon, 'flashcore.yaml'), 'problems: problems\n');
  const { exitCode, stderr } = home.faTui(['verify', kernel, ...CASE], { cwd: colon });
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('must have no ":" in its path')]);
});

test('a folder without a problem, an id that is taken, and a link out of the repository are refused', () => {
  const refused = (): string => {
    const { exitCode, stderr } = faTui('verify', './our_norm_kernel', ...CASE);
    expect(exitCode).toBe(2);
    return stderr;
  };
  const away = join(home.path, 'away');
  renameSync(problem, away);
  const taken = join(repository, 'problems/rmsnorm');
  cpSync(join(ROOT, 'problems/rmsnorm'), taken, { recursive: true });
  expect(refused()).toContain('another problem is called "rmsnorm"');
  renameSync(taken, join(repository, 'problems/Rms Norm'));
  expect(refused()).toContain('must be named lower-case letters');
  rmSync(join(repository, 'problems/Rms Norm'), { recursive: true });
  mkdirSync(problem);
  symlinkSync(join(away, 'problem.yaml'), join(problem, 'problem.yaml'));
  expect(refused()).toContain('must be a file of its folder, not a link');
  rmSync(join(repository, 'problems'), { recursive: true });
  // Git keeps no empty folders, so a clone of a repository without problems lacks the folder.
  expect(refused()).toContain('unknown problem "our_norm"');
  const env = { FLASHCORE_PROBLEMS: join(repository, 'problems') };
  const named = home.faTui(['problem', 'list', 'rmsnorm'], { cwd: home.path, env });
  expect([named.exitCode, named.stderr]).toEqual([2, expect.stringContaining('must be a folder of problems')]);
});
