/**
 * The tasks of a host's administrator: reading the log, backing up, cleaning, restoring; and what clients see of them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Home, isAlive } from '../support/home.ts';
import { waitFor } from '@flashcore/shared/testing';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

async function stopRunner(): Promise<void> {
  const { pid } = home.runnerInfo()!;
  process.kill(pid, 'SIGTERM');
  await waitFor(`process ${pid} to end`, () => !isAlive(pid) || undefined);
}

test('log, gc, backup and restore work on a real runner', { timeout: 120_000 }, async () => {
  const { response, exitCode } = home.runJson(['build', 'syntax_error']);
  expect(exitCode).toBe(1);
  const { name } = response.job!;
  const whole = home.faTui(['watch', name]);

  const log = readFileSync(join(home.path, 'runner.log'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(
    log.every(
      ({ level, time, msg }) =>
        typeof level === 'number' && !Number.isNaN(Date.parse(String(time))) && typeof msg === 'string',
    ),
  ).toBe(true);
  expect(log.filter(({ job }) => job === name).map(({ msg }) => msg)).toEqual(['job accepted', 'job ended']);

  // While the runner runs, backup and a dry run work; a real gc does not.
  const file = join(home.path, 'backup.db');
  const keepNothing = ['--keep-events-days', '0', '--keep-files-days', '0'];
  expect(home.runnerCommand(['backup', file])).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/^backed up 1 job /) as string,
  });
  const dryRun = home.runnerCommand(['gc', '--dry-run', ...keepNothing]);
  expect(dryRun).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^would go:\nevents +[1-9]/) as string });
  expect(home.runnerCommand(['gc', ...keepNothing])).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('own runner of') as string,
  });

  await stopRunner();
  const removed = home.runnerCommand(['gc', ...keepNothing]);
  expect(removed.stdout).toBe(dryRun.stdout.replace('would go:', 'removed:'));
  const trimmed = home.faTui(['watch', name]);
  expect(trimmed.stderr).toMatch(/events before number \d+ are no longer kept/);
  expect({ exitCode: trimmed.exitCode, end: trimmed.stdout.split('\n').at(-2) }).toEqual({
    exitCode: whole.exitCode,
    end: whole.stdout.split('\n').at(-2),
  });
  expect(home.runJson(['watch', name]).response.result).toEqual(response.result);

  expect(home.runnerCommand(['restore', file])).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('own runner of') as string,
  });
  await stopRunner();
  const restored = home.runnerCommand(['restore', file]);
  expect(restored).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/^restored 1 job; the previous database is /) as string,
  });
  expect(existsSync(restored.stdout.trim().split(' ').at(-1)!)).toBe(true);
  const again = home.faTui(['watch', name]);
  expect(again.stderr).not.toContain('no longer kept');
  expect(again.stdout).toBe(whole.stdout);
});

test('fa-tui doctor reports what is missing and how to install it, and fails if there is no runner', () => {
  const { exitCode, stdout } = home.faTui(['doctor', '--json']);
  const { checks } = JSON.parse(stdout) as { checks: { name: string; state: string; why: string; fix: string }[] };
  expect(exitCode).toBe(0);
  expect(checks.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'client',
      'runner',
      'host',
      'device emulator',
      'emulator',
      'g++',
      'sandbox',
      'disk',
      'clock',
    ]),
  );
  for (const { name, state, why, fix } of checks)
    expect([name, why === '', fix === '']).toEqual([name, state === 'ok', state === 'ok']);
  expect(home.faTui(['doctor', '--runner', 'localhost:1'])).toMatchObject({
    exitCode: 1,
    stdout: expect.stringMatching(/✗ runner .*nothing answers there[\s\S]*Fix: /) as string,
  });
});
