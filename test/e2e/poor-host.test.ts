/** A host that lacks what a program needs says which of it, and what to do: folders that take no writes, few files. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const NODE = join(ROOT, 'node_modules/.bin/node');
const PROGRAMS = {
  serve: [join(ROOT, 'apps/runner/dist/main.js'), 'serve'],
  host: [join(ROOT, 'apps/tui/dist/main.js'), 'host'],
};
const folder = mkdtempSync(join(tmpdir(), 'fc-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program where all is read-only but `writable`. */
function readOnly(program: keyof typeof PROGRAMS, { writable, ...environment }: Record<string, string>) {
  const { PATH, FLASHCORE_ALLOW_ROOT } = process.env;
  const { status, stderr } = spawnSync(
    'bwrap',
    [
      '--ro-bind',
      '/',
      '/',
      '--dev',
      '/dev',
      ...(writable ? ['--bind', writable, writable] : []),
      NODE,
      ...PROGRAMS[program],
    ],
    { env: { PATH, FLASHCORE_ALLOW_ROOT, ...environment }, encoding: 'utf8', timeout: 30_000 },
  );
  return { status, stderr };
}

test.skipIf(missing('bubblewrap'))(
  'a read-only HOME is told by the runner and by fa-tui, each with its own way out',
  () => {
    const environment = { HOME: join(folder, 'home'), TMPDIR: folder };
    expect(readOnly('serve', environment)).toEqual({
      status: 2,
      stderr: expect.stringMatching(
        /^flashcore-runner: .*home\/\.flashcore: its file system is read-only; give --data \(or \$FLASHCORE_HOME\) a folder that this user can write to\n$/,
      ) as string,
    });
    expect(readOnly('host', environment)).toEqual({
      status: 3,
      stderr: expect.stringMatching(
        /^error: .*home\/\.flashcore: its file system is read-only; set FLASHCORE_HOME to a folder that this user can write to, or name a runner with --runner\n$/,
      ) as string,
    });
  },
);

test.skipIf(missing('bubblewrap'))('a read-only TMPDIR is told, where the socket of a runner should lie in it', () => {
  const home = join(folder, 'writable');
  mkdirSync(home);
  expect(readOnly('host', { HOME: home, TMPDIR: '/var/tmp', writable: home }).stderr).toMatch(
    /flashcore-runner: The runner's socket can't lie in \/var\/tmp\/flashcore-.*: set XDG_RUNTIME_DIR or TMPDIR to a folder/,
  );
});

test('too few files for a runner are told at its start', () => {
  const { status, stderr } = spawnSync(
    '/bin/sh',
    ['-c', 'ulimit -n 64; exec "$@"', 'sh', NODE, ...PROGRAMS.serve, '--data', join(folder, 'few')],
    { encoding: 'utf8', timeout: 30_000 },
  );
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: expect.stringContaining('Raise the limit of open files (ulimit -n 1024') as string,
  });
});

test.skipIf(existsSync('/dev/nvidiactl'))(
  'serve --no-emulator: no device where there is no GPU, and a job is told so',
  async () => {
    await using home = new Home();
    const { address } = await home.startDaemonAt('127.0.0.1:0', '--no-emulator');
    expect(home.faTui(['host', '--runner', address]).stdout).not.toContain('Device');
    const { exitCode, stderr } = home.faTui(['build', 'fa_v1_baseline', '--runner', address]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringContaining('The runner has no device: start it on a host') as string,
    });
  },
);

test("a runner's files are its user's alone, whatever the mode of a folder that was there", async () => {
  await using home = new Home();
  chmodSync(home.path, 0o755);
  await home.startDaemon();
  expect(statSync(home.path).mode & 0o777).toBe(0o755);
  const open = readdirSync(home.path).filter((name) => (statSync(join(home.path, name)).mode & 0o077) !== 0);
  expect(open).toEqual([]);
  expect(readdirSync(home.path)).toContain('flashcore.db');
});
