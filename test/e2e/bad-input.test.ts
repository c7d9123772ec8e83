/**
 * Bad input gets a clear error at once that says what was wanted, what was given and what to do. The exit code is 2 for
 * a usage error, and 3 if the runner could not do its work.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ALL_TESTS, inFull } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

const badFolder = (name: string, change: (folder: string) => void): string => {
  const folder = join(home.path, name);
  mkdirSync(folder, { recursive: true });
  change(folder);
  return folder;
};
const wrongKey = badFolder('wrong_key', (folder) => {
  cpSync(join(ROOT, 'kernels/fa_v1_baseline'), folder, { recursive: true });
  writeFileSync(join(folder, 'kernel.yaml'), 'id: wrong_key\ntitle: x\nsourc: a.cu\nlaunches: []\n');
});

/**
 * The short form has one of each place that finds the mistake: runner, manifest, connection. Mistakes that fa-tui finds
 * in its command line are in program.test.ts.
 */
const ONE_OF_EACH = [
  'a shape that the kernel does not take, with its limit',
  'a manifest with a wrong key, with path and key',
  'an address where nothing listens',
];
const BAD: [title: string, args: string[], exitCode: number, texts: RegExp[]][] = [
  [
    'an unknown kernel, with the nearest names',
    ['run', 'flashcore_v66'],
    2,
    [/flashcore_v66/, /flashcore_v6/, /fa-tui kernels --all/],
  ],
  [
    'a shape that the kernel does not take, with its limit',
    ['verify', 'fa_v2_wmma', '--shape', '1x1x64x128'],
    2,
    [/D == 64/, /1x1x64x128/],
  ],
  [
    'a parameter that the manifest does not have',
    ['build', 'fa_v2_wmma', '--set', 'USE_WMA=1'],
    2,
    [/USE_WMA\b/, /USE_WMMA/],
  ],
  ['a value that the manifest does not list', ['build', 'fa_v2_wmma', '--set', 'USE_WMMA=7'], 2, [/7/, /1, 0|0, 1/]],
  ['an invalid architecture', ['build', 'fa_v2_wmma', '--arch', 'sm_7'], 2, [/sm_7/]],
  ['a manifest with a wrong key, with path and key', ['run', wrongKey], 2, [/kernel\.yaml/, /sourc/]],
  ['bench with neither a kernel nor SDPA', ['bench'], 2, [/give a kernel or folder, or --sdpa all/]],
  ['SDPA without a kernel on the emulator', ['bench', '--sdpa', 'all'], 2, [/must be a GPU/, /PyTorch can't run on/]],
  [
    'SDPA without a kernel, but with options for a kernel',
    ['bench', '--sdpa', 'all', '--set', 'A=1', '--legacy-loop'],
    2,
    [/variant: must be unset without a kernel/, /legacy_loop: must be unset/],
  ],
  ['an unknown build', ['verify', 'ab'.repeat(32)], 2, [/build_id/, /abab/]],
  ['an unknown job', ['watch', 'jobs/00000000-0000-4000-8000-000000000000'], 2, [/00000000/]],
  ['an address where nothing listens', ['host', '--runner', '127.0.0.1:9'], 3, [/127\.0\.0\.1:9/]],
];

test.each(inFull(BAD, ([title]) => ONE_OF_EACH.includes(title)))(
  'bad input is reported without a stack trace: %s',
  (_, args, exitCode, texts) => {
    const started = Date.now();
    const result = home.faTui(args);
    expect({ exitCode: result.exitCode, stdout: result.stdout }, result.stderr).toEqual({ exitCode, stdout: '' });
    for (const text of texts) expect(result.stderr).toMatch(text);
    expect(result.stderr).not.toMatch(/\n\s+at .*:\d+:\d+/); // no stack trace
    expect(Date.now() - started).toBeLessThan(20_000);
  },
);

// The short form has the same error in apps/runner/src/daemon.test.ts, without a process.
if (ALL_TESTS)
  test('the daemon reports a port in use and exits with 3', async () => {
    await using other = new Home();
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    try {
      await expect(other.startDaemonAt(`127.0.0.1:${port}`)).rejects.toThrow(new RegExp(`exit code 3[^]*${port}`));
    } finally {
      server.close();
    }
  });

test('the daemon refuses an address beyond loopback without TLS', async () => {
  await using other = new Home();
  await expect(other.startDaemonAt('0.0.0.0:0')).rejects.toThrow(/exit code 2[^]*TLS/);
});
