import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { ALL_TESTS, edited, inFull, missing } from '@flashcore/shared/testing';
import { shellWord } from '@flashcore/shared/text';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { readRunnerRecord } from '../connection/data-directory.ts';
import { OwnKernels } from '../settings/own-kernels.ts';

// The built program runs as a separate process, with a real embedded runner.
const BIN = fileURLToPath(new URL('../../bin/fa-tui.js', import.meta.url));

let home: string;
beforeAll(() => void (home = mkdtempSync(path.join(tmpdir(), 'fa-'))));
afterAll(() => {
  const pid = readRunnerRecord(home)?.pid;
  if (pid) process.kill(pid, 'SIGKILL');
  rmSync(home, { recursive: true, force: true });
});

type Child = ChildProcessByStdio<null, Readable, Readable>;

function start(...args: string[]): Child {
  return spawn(process.execPath, [BIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, FLASHCORE_HOME: home },
  });
}

async function ended(child: Child): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (piece: string) => void (text[name] += piece));
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.once('close', resolve);
  return { code: await promise, ...text };
}

const run = (...args: string[]) => ended(start(...args));

async function seen(child: Child, text: string): Promise<void> {
  let all = '';
  for await (const piece of child.stderr.setEncoding('utf8').iterator({ destroyOnReturn: false }))
    if ((all += String(piece)).includes(text)) return;
  throw new Error(`Wanted "${text}" on stderr, which ended with:\n${all}`);
}

test('new makes a kernel that builds under its own id, and refuses an id that one of the runner’s kernels has', async () => {
  const folder = path.join(home, 'my_kernel');
  const { code, stdout } = await run('new', folder);
  expect(code).toBe(0);
  expect(stdout).toMatch(/my_kernel, a copy of fa_v1_baseline: .*my_kernel\.cu\n[^]*fa-tui run \/.*my_kernel /);
  const listed = await new OwnKernels({ ...process.env, FLASHCORE_HOME: home }).list();
  expect(listed.kernels.map((kernel) => kernel.folder)).toContain(folder);
  const built = JSON.parse((await run('build', folder, '--json', '--quiet')).stdout) as { job: object };
  expect(built.job).toMatchObject({ kernelId: 'my_kernel', outcome: 'OUTCOME_PASSED' });
  const known = path.join(home, 'fa_v2_wmma');
  const refused = await run('new', known);
  expect([refused.code, existsSync(known)]).toEqual([2, false]);
  expect(refused.stderr).toMatch(/fa_v2_wmma is a kernel of the runner: give another name/);
});

if (ALL_TESTS)
  test.skipIf(missing('nvcc'))('a kernel with a failed verdict is exported only with --unverified', async () => {
    const folder = path.join(home, 'wrong_one');
    await run('new', folder);
    const source = path.join(folder, 'wrong_one.cu');
    writeFileSync(source, edited(readFileSync(source, 'utf8'), 'scale * LOG2_E', '2.0f * scale * LOG2_E'));
    expect((await run('verify', folder, '--shape', '1x1x64x64')).code).toBe(1);
    const file = path.join(home, 'wrong_one.py');
    const refused = await run('export', folder, '--torch', file, '--arch', 'sm_90a');
    expect([refused.code, existsSync(file)]).toEqual([1, false]);
    expect(refused.stderr).toMatch(/wrong_one can't be exported: it was WRONG_RESULT .*jobs\/.*--unverified/);
    const taken = await run('export', folder, '--torch', file, '--arch', 'sm_90a', '--unverified');
    expect(taken.code).toBe(0);
    expect(taken.stderr).toMatch(/UNVERIFIED: wrong_one was WRONG_RESULT/);
    expect(readFileSync(file, 'utf8')).toMatch(/UNVERIFIED: wrong_one[^]*PROVENANCE = .*WRONG_RESULT in jobs/);
  });

if (ALL_TESTS)
  test.skipIf(missing('nvcc'))(
    'a kernel is exported with its backward pass, both in one dtype',
    { timeout: 120_000 },
    async () => {
      const kernels = path.join(import.meta.dirname, '../../../../examples/kernels');
      const [forward, backward, file] = [
        path.join(kernels, 'gqa_rows'),
        path.join(kernels, 'backward_rows'),
        path.join(home, 'pair.py'),
      ];
      const pair = [
        'export',
        forward,
        '--torch',
        file,
        '--arch',
        'sm_90',
        '--set',
        'WRITE_LSE=1',
        '--backward',
        backward,
      ];
      const refused = await run(...pair, '--set', 'BF16=1');
      expect([refused.code, existsSync(file)]).toEqual([1, false]);
      expect(refused.stderr).toMatch(/the one takes bf16, the other fp16; choose .* --backward-set/);
      expect((await run(...pair, '--set', 'BF16=1', '--backward-set', 'BF16=1')).code).toBe(0);
      const text = readFileSync(file, 'utf8');
      expect(text).toMatch(/the backward pass is\s+backward_rows/);
      expect(text).toMatch(/PROVENANCE = .*gqa_rows.*BF16=1 .*WRITE_LSE=1.*backward_rows.*BF16=1/);
      expect(text).toMatch(/^_CUBINS = \([^]{1000,}^_BACKWARD_CUBINS = \([^]{1000,}\)$/m);
    },
  );

if (ALL_TESTS)
  test.skipIf(missing('nvcc'))(
    "a manifest that omits one of the kernel's parameters is reported before a launch, with both parameter lists",
    async () => {
      const folder = path.join(home, 'forgets');
      await run('new', folder);
      const manifest = path.join(folder, 'kernel.yaml');
      writeFileSync(manifest, edited(readFileSync(manifest, 'utf8'), 'causal, diagonal]', 'causal]'));
      const { code, stdout } = await run('verify', folder, '--shape', '1x1x64x64', '--json', '--quiet');
      const { result } = JSON.parse(stdout) as { result: { variants: { findings: object[]; verify?: object }[] } };
      expect(code).toBe(1);
      expect(result.variants[0]).not.toHaveProperty('verify');
      expect(result.variants[0]!.findings).toMatchObject([
        {
          kind: 'FINDING_KIND_WRONG_ARGUMENTS',
          message:
            'forgets takes 10 parameters (8, 8, 8, 8, 4, 4, 4, 4, 4, 4 bytes), the manifest gives 9 arguments: Q, K, V, O, int32 64, int32 64, int32 0, float32 0.125, int32 0',
        },
      ]);
    },
  );

test('completion knows the kernels and jobs of a running runner', async () => {
  const { stdout } = await run('build', 'fa_v1_baseline', '--json', '--quiet');
  const { job } = JSON.parse(stdout) as { job: { name: string } };
  const short = job.name.slice('jobs/'.length, 'jobs/'.length + 8);
  // A runner that does not answer in time is treated as not running, so on a loaded machine the completion of a word
  // may need a second try.
  const asked = async (...words: string[]) => (await run('__complete', ...words)).stdout;
  const offers = (words: string[], expected: RegExp) =>
    vi.waitFor(async () => expect(await asked(...words)).toMatch(expected), { timeout: 30_000 });
  const all: [words: string[], offers: RegExp][] = [
    [['run', 'fa_v1'], /^fa_v1_baseline\tScalar attention .+\n$/],
    [['watch', short.slice(0, 3)], new RegExp(`^${short}\\t`, 'm')],
    [['run', 'fa_v2_wmma', '--set', 'USE'], /^USE_WMMA=\t/],
    [['run', 'fa_v2_wmma', '--device', ''], /^emulator\t/],
  ];
  for (const [words, expected] of inFull(all, ([words]) => words[0] === 'watch')) await offers(words, expected);
});

if (ALL_TESTS)
  test('the leaderboard of the emulator is empty and gives the reason', async () => {
    const { code, stdout } = await run('leaderboard');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^Leaderboard\s+2x8x512x64 hot on .+\n {2}Emulator times are not GPU times: .+ has no\n {2}leaderboard/,
    );
  });

if (ALL_TESTS)
  test('the empty leaderboard as JSON and as a page gives the reason too; an unknown mode is bad usage', async () => {
    const { stdout } = await run('leaderboard');
    const json = await run('leaderboard', '--mode', 'cold', '--shape', '1x8x512x64', '--json', '--quiet');
    expect(JSON.parse(json.stdout)).toMatchObject({
      place: { shape: { batch: 1 }, mode: 'TIMING_MODE_COLD' },
      baselineKernel: 'fa_v1_baseline',
    });
    const page = path.join(home, 'board.html');
    expect(await run('leaderboard', '--export', page)).toMatchObject({ code: 0, stdout });
    expect(readFileSync(page, 'utf8')).toMatch(
      /^<!doctype html>[^]*Emulator times are not GPU times: .+ has no leaderboard/,
    );
    expect(await run('leaderboard', '--export', '/nowhere/board.html')).toMatchObject({ code: 2, stdout: '' });
    expect(await run('leaderboard', '--mode', 'warm')).toMatchObject({ code: 2, stdout: '' });
  });

describe('a kernel that does not compile', () => {
  test('exits with 1 and names file and line; the last line names the job, and watch prints the same report again', async () => {
    const { code, stdout } = await run('build', 'syntax_error');
    expect(code).toBe(1);
    expect(stdout).toMatch(/COMPILE FAILED\n.*syntax_error\.cu:\d+/);
    const [, name = ''] = /\nCOMPILE FAILED {2}(jobs\/[0-9a-f-]{36})\n$/.exec(stdout) ?? [];
    const again = await run('watch', name.slice('jobs/'.length, 'jobs/'.length + 8));
    expect([again.code, again.stdout]).toEqual([1, stdout]);
    if (ALL_TESTS) expect(await run('watch')).toMatchObject({ code: 1, stdout });
  });

  if (ALL_TESTS)
    test('prints one document with --json, and watch prints the same document', async () => {
      const { code, stdout } = await run('build', 'syntax_error', '--json', '--quiet');
      const document = JSON.parse(stdout) as {
        job: { name: string; outcome: string };
        result: { variants: { build: { succeeded: boolean } }[] };
      };
      expect(code).toBe(1);
      expect([document.job.outcome, document.result.variants[0]?.build.succeeded]).toEqual([
        'OUTCOME_COMPILE_FAILED',
        false,
      ]);
      expect(JSON.parse((await run('watch', document.job.name, '--json')).stdout)).toEqual(document);
    });
});

if (ALL_TESTS)
  test('a reader that exits early ends the program silently', async () => {
    const child = start('kernels', '--all', '--json');
    child.stdout.destroy();
    const { code, stderr } = await ended(child);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^runner: .*\n$/);
  });

test('--quiet leaves stderr empty', async () => {
  const { code, stdout, stderr } = await run('jobs', '--quiet');
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('syntax_error');
});

describe.runIf(existsSync('/dev/full'))('a full disk', () => {
  test('under stdout makes the program exit with 3 and a message', async () => {
    const child = spawn('/bin/sh', ['-c', `exec ${shellWord(process.execPath)} ${shellWord(BIN)} host > /dev/full`], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, FLASHCORE_HOME: home },
    });
    const { code, stderr } = await ended(child);
    expect(code).toBe(3);
    expect(stderr).toContain('ENOSPC');
  });
});

test(
  '--detach prints the name and leaves the job running; Ctrl-C on a watch also leaves it running, and cancel ends it',
  { timeout: 180_000 },
  async () => {
    const detached = await run('verify', 'fa_v1_baseline', '--seeds', '100', '--detach');
    const name = detached.stdout.trim();
    expect(name).toMatch(/^jobs\/[0-9a-f-]{36}$/);
    const watcher = start('watch', name);
    await seen(watcher, 'verify');
    watcher.kill('SIGINT');
    await seen(watcher, 'The job goes on');
    expect((await ended(watcher)).code).toBe(130);
    expect((await run('jobs', '--limit', '1')).stdout).toMatch(/running/);
    expect(await run('cancel', name)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^(cancelling|CANCELLED)  jobs/) as string,
    });
    const { code, stdout } = await run('watch', name);
    expect(stdout).toMatch(new RegExp(`\nCANCELLED {2}${name}\n$`));
    expect(code).toBe(3);
    if (!ALL_TESTS) return;
    expect(await run('cancel', name)).toMatchObject({
      code: 0,
      stdout: `nothing to cancel, the job had ended: CANCELLED  ${name}\n`,
    });
    const several = await run('cancel', name, name.slice(5, 13), '--json');
    expect((JSON.parse(several.stdout) as object[]).map((each) => 'job' in each)).toEqual([true]);
    expect(await run('cancel', name, '00000000')).toMatchObject({ code: 2, stdout: '' });
  },
);

test('the runner survives its clients, and its log has no errors', () => {
  expect(readRunnerRecord(home)).toBeDefined();
  expect(readFileSync(path.join(home, 'runner.log'), 'utf8')).not.toMatch(/"level":[56]0/);
});
