/**
 * On a host that lacks something, a program says what is missing and what to do: writable folders, open files, a
 * sandbox.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const NODE = join(ROOT, 'node_modules/.bin/node');
const RUNNER = join(ROOT, 'apps/runner/dist/main.js');
const PROGRAMS = {
  serve: [RUNNER, 'serve'],
  host: [join(ROOT, 'apps/tui/dist/main.js'), 'host'],
};
const folder = mkdtempSync(join(tmpdir(), 'fc-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program on a system where everything except `writable` is read-only. */
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

test.skipIf(missing('bubblewrap'))('the runner and fa-tui report a read-only HOME, each with its own remedy', () => {
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
});

test.skipIf(missing('bubblewrap'))('fa-tui reports an existing data folder that is not writable', () => {
  const data = join(folder, 'data');
  mkdirSync(data);
  expect(readOnly('host', { HOME: folder, TMPDIR: folder, FLASHCORE_HOME: data }).stderr).toMatch(
    /^error: .*\/data: its file system is read-only; set FLASHCORE_HOME to a folder that this user can write to/,
  );
});

test.skipIf(missing('bubblewrap'))("a read-only TMPDIR is reported if a runner's socket would go there", () => {
  const home = join(folder, 'writable');
  mkdirSync(home);
  expect(readOnly('host', { HOME: home, TMPDIR: '/var/tmp', writable: home }).stderr).toMatch(
    /flashcore-runner: The runner's socket can't be in \/var\/tmp\/flashcore-.*: set XDG_RUNTIME_DIR or TMPDIR to a folder/,
  );
});

test.each([
  ['files', 'ulimit -n 64', 'Raise the limit of open files (ulimit -n 1024'],
  ['address space', 'ulimit -v 1200000', 'Raise the limit of address space (ulimit -v unlimited'],
])('too little %s for a runner is reported at its start', (what, limit, told) => {
  const { status, stderr } = spawnSync(
    '/bin/sh',
    ['-c', `${limit}; exec "$@"`, 'sh', NODE, ...PROGRAMS.serve, '--data', join(folder, what)],
    { encoding: 'utf8', timeout: 30_000 },
  );
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(told) as string });
});

test('too little address space for fa-tui is reported at its start', () => {
  const { status, stderr } = spawnSync(
    '/bin/sh',
    ['-c', 'ulimit -v 1200000; exec "$@"', 'sh', NODE, ...PROGRAMS.host],
    { encoding: 'utf8', timeout: 30_000 },
  );
  expect([status, stderr]).toEqual([
    2,
    expect.stringMatching(/^error: Raise the limit of address space .*fa-tui needs/),
  ]);
});

test.skipIf(missing('bubblewrap'))('root serves only on request', () => {
  const { PATH } = process.env;
  // Root inside the namespace, whichever user runs this.
  const asRoot = ['--unshare-user', '--uid', '0', '--gid', '0', '--bind', '/', '/', '--dev', '/dev'];
  const { status, stderr } = spawnSync('bwrap', [...asRoot, NODE, ...PROGRAMS.serve, '--data', join(folder, 'root')], {
    env: { PATH },
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: expect.stringMatching(
      /^flashcore-runner: The runner was started as root: serve as a separate user .*, or give --allow-root\n$/,
    ) as string,
  });
});

test.skipIf(missing('openssl'))('if bwrap fails, a runner with authenticated clients refuses to serve', () => {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho "bwrap: setting up uid map: Permission denied" >&2\nexit 1\n', {
    mode: 0o755,
  });
  const data = join(folder, 'secured');
  const runner = (...args: string[]) => {
    const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
    const { status, stderr } = spawnSync(NODE, [RUNNER, ...args, '--data', data], {
      env,
      encoding: 'utf8',
      timeout: 30_000,
    });
    return { status, stderr };
  };
  expect(runner('tls', 'init', '--host', 'localhost').status).toBe(0);
  const serve = ['serve', '--address', '127.0.0.1:0'];
  const refused = (remedy: string) => ({
    status: 2,
    stderr: expect.stringMatching(
      new RegExp(`flashcore-runner: bubblewrap does not work here: bwrap: setting up uid map.*, or ${remedy}`),
    ) as string,
  });
  expect(runner(...serve, '--tls', join(data, 'tls'))).toEqual(refused('give --isolation none, with which'));
  expect(runner(...serve, '--isolation', 'required')).toEqual(refused('leave out --isolation required'));
});

test.skipIf(existsSync('/dev/nvidiactl'))(
  'serve --no-emulator: without a GPU there is no device, and a job says so',
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

test("a runner's files are accessible only to its user, whatever mode an existing folder has", async () => {
  await using home = new Home();
  chmodSync(home.path, 0o755);
  await home.startDaemon();
  expect(statSync(home.path).mode & 0o777).toBe(0o755);
  const open = readdirSync(home.path).filter((name) => (statSync(join(home.path, name)).mode & 0o077) !== 0);
  expect(open).toEqual([]);
  expect(readdirSync(home.path)).toContain('flashcore.db');
});
