/** `fa-tui tune` on the emulator: its table, and a search during which the runner is killed with kill -9. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { layOutSmallKernel } from '../support/small-kernel.ts';
import { waitFor } from '@flashcore/shared/testing';

const search = (folder: string): string[] => ['tune', folder, '--set', 'TILE=32,16', '--shape', '1x1x64x64'];

interface Tuned {
  job: { requestId: string };
  result: {
    tune: { winner: string; complete: boolean; variants: { label: string; reused: boolean; verified: string }[] };
  };
}

let home: Home;
let kernel: string;
beforeAll(() => {
  home = new Home();
  kernel = join(home.path, 'kernel');
  layOutSmallKernel(kernel);
});
afterAll(() => home[Symbol.asyncDispose]());

test(
  'tune ranks by registers and shared memory, and says that emulator times are not judged',
  { timeout: 180_000 },
  () => {
    const { exitCode, stdout, stderr } = home.faTui(search(kernel));
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toMatch(
      /2 variants\n +ranked by registers, then shared memory,[^]*--arch sm_90[^]*variant +registers[^]*TILE=32[^]*not timed[^]*First by resources, not timed: TILE=/,
    );
    expect(stderr).toMatch(/TILE=16: right, \d+ registers/);
  },
);

test(
  'after kill -9 of the runner the same request continues the search, and nothing is measured twice',
  { timeout: 240_000 },
  async () => {
    await using own = new Home();
    const requestId = '123e4567-e89b-42d3-a456-426614174000';
    const args = [...search(kernel), '--request-id', requestId, '--json'];
    const client = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), args, { cwd: ROOT, env: own.env });
    let [stdout, stderr] = ['', ''];
    client.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    client.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await waitFor('a variant to be verified', () => /: right, /.test(stderr) || undefined, 120_000);
    process.kill(own.runnerInfo()!.pid, 'SIGKILL');
    await waitFor('the search to end', () => client.exitCode ?? undefined, 120_000);
    expect(client.exitCode, stderr).toBe(0);
    expect(stderr).toMatch(/the search continues/);
    const { job, result } = JSON.parse(stdout) as Tuned;
    expect([job.requestId, result.tune.complete]).toEqual([requestId, true]);
    expect(result.tune.variants.map(({ verified }) => verified)).toEqual(['VERDICT_PASS', 'VERDICT_PASS']);
    expect(result.tune.variants.some(({ reused }) => reused)).toBe(true);
  },
);

test('Ctrl-C prints the name of the search and leaves it running', { timeout: 180_000 }, async () => {
  const client = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), [...search(kernel), '--remeasure'], {
    cwd: ROOT,
    env: home.env,
  });
  let stderr = '';
  client.stderr.setEncoding('utf8').on('data', (piece: string) => (stderr += piece));
  await waitFor('a variant', () => /TILE/.test(stderr) || undefined, 120_000);
  client.kill('SIGINT');
  await waitFor('the name', () => /The job goes on\. Watch it: fa-tui watch [0-9a-f]{8}/.test(stderr) || undefined);
  // eslint-disable-next-line flashcore/no-fixed-wait -- so that the next signal does not merge with this one
  await sleep(200);
  client.kill('SIGINT');
  await waitFor('the client to end', () => client.exitCode ?? undefined);
  expect(client.exitCode).toBe(130);
  const { jobs } = JSON.parse(home.faTui(['jobs', '--limit', '1', '--json']).stdout) as { jobs: { name: string }[] };
  const [, shown = 'none'] = /fa-tui watch ([0-9a-f]{8})/.exec(stderr) ?? [];
  expect(jobs[0]!.name).toMatch(new RegExp(`^jobs/${shown}`));
  expect(home.faTui(['watch', shown], { timeoutMs: 120_000 }).exitCode).toBe(0);
});

test('tune exits with 2 on a usage error and says what to do', () => {
  const usage = (...args: string[]) => home.faTui(['tune', ...args]);
  const cases: [string[], RegExp][] = [
    [['flashcore_v8', '--set', 'BLOCK_Q'], /--set BLOCK_Q: must be NAME=A,B,C/],
    [['flashcore_v8', '--set', 'BLOCK_Q=65'], /BLOCK_Q=65: must be of 64, 96/],
    [['flashcore_v8', '--budget', 'much'], /--budget much: must be variants/],
    [['flashcore_v8', '--budget', '5', '--budget', '6'], /once each/],
  ];
  for (const [args, text] of cases)
    expect(usage(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(text) as string });
});
