/**
 * `fa-tui uninstall --purge` removes everything that belongs to flashcore and nothing that belongs to the user, and
 * refuses to run while a runner has work.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Home } from '../support/home.ts';

const homes: Home[] = [];
const newHome = (): Home => {
  const home = new Home();
  homes.push(home);
  return home;
};
afterAll(() => Promise.all(homes.map((home) => home[Symbol.asyncDispose]())));

test("--yes removes the data folder, settings and logins, and keeps the user's files", { timeout: 120_000 }, () => {
  const home = newHome();
  const own = join(home.path, 'my notes.txt');
  writeFileSync(own, 'mine');
  const settings = join(home.path, 'config/flashcore/fa-tui.yaml');
  mkdirSync(join(settings, '..'), { recursive: true });
  writeFileSync(settings, 'ascii: true\n');
  const started = home.faTui(['verify', 'fa_v1_baseline', '--detach', '--json']);
  const [job] = /jobs\/[\w-]+/.exec(started.stdout)!;

  const listed = home.faTui(['uninstall']);
  expect([listed.exitCode, listed.stdout]).toEqual([0, expect.stringContaining(join(home.path, 'flashcore.db'))]);
  expect(listed.stdout).not.toContain('my notes');
  expect(home.faTui(['uninstall', '--purge', '--yes'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/has 1 job: cancel them/) as string,
  });
  home.faTui(['cancel', job]);
  home.faTui(['watch', job]);
  expect(home.faTui(['uninstall', '--purge'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('must be confirmed, and nobody can be asked: give --yes') as string,
  });
  expect(existsSync(settings)).toBe(true);

  expect(home.faTui(['uninstall', '--purge', '--yes'])).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(
      /^removed \d+ items, .*\nnot flashcore's, so kept in .*: my notes.txt\nThe program itself: remove the folder /,
    ) as string,
  });
  expect(readdirSync(home.path)).toEqual(['my notes.txt']);
});

test(
  'uninstall leaves a runner that its owner started with `serve` alone, with all its data',
  { timeout: 60_000 },
  async () => {
    const home = newHome();
    const { process: daemon } = await home.startDaemon();
    expect(home.faTui(['uninstall', '--purge', '--yes'])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining(`(process ${daemon.pid}): stop it first`) as string,
    });
    expect(home.runnerCommand(['purge', '--yes'])).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('A runner serves') as string,
    });
    expect(readdirSync(home.path)).toEqual(expect.arrayContaining(['artifacts', 'flashcore.db', 'lock.db', 'sources']));
  },
);

test('uninstall does not treat a folder that no runner has used as a data folder, whatever the folder contains', () => {
  const home = newHome();
  for (const name of ['builds', 'sources', 'tmp']) mkdirSync(join(home.path, name));
  expect(home.runnerCommand(['purge', '--yes'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('must be the data folder of a runner') as string,
  });
  expect(home.faTui(['uninstall', '--purge', '--yes']).exitCode).toBe(0);
  expect(readdirSync(home.path)).toEqual(['builds', 'sources', 'tmp']);
});
