/** A flashcore.yaml that names a login: a file written by others cannot choose where the user's credentials go. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, type CommandResult } from '../support/home.ts';

// A runner that other machines can reach makes its certificates with openssl, and does not serve without a sandbox.
const NO_HOST = missing('openssl') || missing('bubblewrap');

const box = new Home();
const laptop = new Home();
// Set before the tests, so that a file with only skipped tests makes no folder.
let authority: string;
let repository: string;
let address: string;

beforeAll(async () => {
  if (NO_HOST) return;
  authority = join(box.path, 'tls', 'ca.crt');
  expect(box.runnerCommand(['tls', 'init', '--host', '127.0.0.1', '--data', box.path]).exitCode).toBe(0);
  const token = newToken('ada');
  const flags = ['--clients', 'token', '--tls', join(box.path, 'tls')];
  ({ address } = await box.startDaemonAt('127.0.0.1:0', ...flags));
  expect(laptop.faTui(['login', address, '--name', 'box', '--tls-ca', authority], { input: token })).toMatchObject({
    exitCode: 0,
  });
  repository = join(laptop.path, 'cloned');
  mkdirSync(repository);
  writeFileSync(join(repository, 'flashcore.yaml'), 'runner: box\n');
}, 60_000);
afterAll(async () => {
  await laptop[Symbol.asyncDispose]();
  await box[Symbol.asyncDispose]();
});

const newToken = (name: string): string => box.runnerCommand(['token', 'add', name, '--data', box.path]).stdout.trim();
/** The caller as the runner identifies it, read from the owner of the caller's job. */
const build = (args: string[] = [], env: Record<string, string> = {}): CommandResult =>
  laptop.faTui(['build', 'fa_v1_baseline', '--json', ...args], { cwd: repository, env });
const owner = ({ stdout }: CommandResult): string => (JSON.parse(stdout) as { job: { owner: string } }).job.owner;

test.skipIf(NO_HOST)(
  "a project's runner gets only the credentials of its login, and nothing from the environment",
  { timeout: 120_000 },
  () => {
    const env = { FLASHCORE_TOKEN: newToken('grace'), FLASHCORE_TLS_CA: join(laptop.path, 'none.crt') };
    const byProject = build([], env);
    expect([byProject.exitCode, byProject.stderr]).toEqual([
      0,
      expect.stringMatching(/\$FLASHCORE_TOKEN, \$FLASHCORE_TLS_CA: not sent to a runner that .*flashcore\.yaml names/),
    ]);
    expect(owner(byProject)).toBe('ada');
    const { FLASHCORE_TOKEN } = env;
    expect(owner(build(['--runner', 'box'], { FLASHCORE_TOKEN }))).toBe('grace');
    expect(owner(build([], { FLASHCORE_TOKEN, FLASHCORE_RUNNER: 'box' }))).toBe('grace');
    expect(laptop.faTui(['config', 'show'], { cwd: repository, env }).stdout).not.toMatch(/\$FLASHCORE_T(OKEN|LS_CA)/);
  },
);

test.skipIf(NO_HOST)('files in --tls options are only for a runner that the user names', () => {
  const { exitCode, stderr } = build(['--tls-ca', authority]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('name the runner that they are for with --runner')]);
  expect(owner(build(['--tls-ca', authority, '--runner', 'box']))).toBe('ada');
});
