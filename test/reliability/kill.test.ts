/**
 * kill -9 of the daemon, at random moments and at every step of its store: what a client was told is there after the
 * restart.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  collect,
  kernel,
  startChildRunner,
  startChildRunnerIn,
  temporaryFolder,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, Outcome, type JobEvent } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { campaign, integer, percentile, pick, seededUuid } from './campaign.ts';

const PROMISE = 'jobs-survive';
const RESOLVED_WITHIN_MS = 5_000;
const GIVE_UP_MS = 10_000;
const KERNELS = ['ok', 'flood_40', 'flood_3000', 'sleep_30', 'sleep_200', 'hang', 'error'];

campaign(
  'kill -9 at random moments under load',
  { promise: PROMISE, rounds: { ci: 10, soak: 300 } },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    const told: Told[] = [];
    const restartsMs: number[] = [];
    let daemon = await startChildRunner(...flags(folder.path));
    for (let round = 0; round < rounds; round += 1) {
      const wanted = Array.from({ length: integer(random, 2, 6) }, () => ({
        kernelId: pick(random, KERNELS),
        requestId: seededUuid(random),
      }));
      told.push(...(await loadUntilKilled(daemon, wanted, integer(random, 0, 250))));
      const restart = performance.now();
      const waitedBefore = waitedMs('self');
      daemon = await startChildRunner(...flags(folder.path));
      await expectNothingRuns(daemon);
      const waited = waitedMs('self') - waitedBefore + waitedMs(daemon.child.pid!);
      restartsMs.push(performance.now() - restart - waited);
      // Every third round is checked whole, the others when it is their turn: logs stay as they are.
      if (round % 3 === 2 || round === rounds - 1) await checkTold(daemon, told.splice(0));
    }
    await daemon[Symbol.asyncDispose]();
    expect(Math.max(...restartsMs)).toBeLessThan(RESOLVED_WITHIN_MS);
    figure(
      'kill -9 at random moments',
      `${rounds} kills; no name lost, no gap, one end each; resolved after a restart p99 ${percentile(restartsMs, 0.99).toFixed(0)} ms`,
    );
  },
);

campaign(
  'kill -9 at the steps of the store',
  { promise: PROMISE, rounds: { ci: 8, soak: 60 } },
  async ({ random, rounds, figure }) => {
    let named = 0;
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      const where = pick(random, ['before', 'after', 'torn']);
      const step = integer(random, 1, 26);
      const doomed = await startChildRunnerIn(
        { ...process.env, FLASHCORE_FAILPOINT: `${step} ${where}` },
        ...flags(folder.path),
      );
      const wanted = Array.from({ length: 8 }, (_, index) => ({
        kernelId: ['ok', 'flood_900', 'error', 'sleep_10'][index % 4]!,
        requestId: seededUuid(random),
      }));
      const started = performance.now();
      // A client may look for it some seconds more.
      const diedAfterMs = new Promise<number>((resolve) =>
        doomed.child.once('exit', () => resolve(performance.now() - started)),
      );
      const told = await loadUntilKilled(doomed, wanted, GIVE_UP_MS);
      expect(await diedAfterMs, `it did not come to its failpoint "${step} ${where}"`).toBeLessThan(GIVE_UP_MS);
      await using again = await startChildRunner(...flags(folder.path));
      await checkTold(again, told);
      named += told.filter(({ seen }) => seen.length > 0).length;
    }
    figure(
      'kill -9 before, after and within a commit',
      `${rounds} kills, ${named} names told to clients; all there, one end each`,
    );
  },
);

/** What was running at the crash is resolved by the time that the runner answers. */
async function expectNothingRuns(daemon: ChildRunner): Promise<void> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const running = await client.listJobs({ state: JobState.RUNNING });
  const queued = await client.listJobs({ state: JobState.QUEUED });
  expect([...running.jobs, ...queued.jobs]).toEqual([]);
}

/** For how long a process had work and no processor since it started, by Linux; 0 where that is not known. */
function waitedMs(pid: number | 'self'): number {
  const path = `/proc/${pid}/schedstat`;
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0;
}

interface Told {
  requestId: string;
  kernelId: string;
  seen: JobEvent[];
}

const flags = (folder: string): string[] => ['--data', join(folder, 'data'), '--address', `unix:${folder}/s`];

/** Starts jobs, kills the daemon some time later (unless it kills itself), and says what clients had seen by then. */
async function loadUntilKilled(
  daemon: ChildRunner,
  wanted: { kernelId: string; requestId: string }[],
  afterMs: number,
): Promise<Told[]> {
  const client = await RunnerClient.connect({ address: daemon.address }).catch((error: unknown) => {
    // A failpoint may come before the first client.
    if (daemon.child.exitCode === null && daemon.child.signalCode === null) throw error;
    return undefined;
  });
  if (!client) return [];
  const abort = new AbortController();
  const told = wanted.map(({ kernelId, requestId }): Told => ({ kernelId, requestId, seen: [] }));
  const watching = told.map(async ({ kernelId, requestId, seen }) => {
    try {
      for await (const event of client.start(
        'build',
        { ...kernel(kernelId), options: { requestId } },
        { signal: abort.signal },
      ))
        seen.push(event);
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    }
  });
  const killed = new Promise((resolve) => daemon.child.once('exit', resolve));
  // eslint-disable-next-line flashcore/no-fixed-wait -- the kill comes at any moment
  await Promise.race([killed, new Promise((resolve) => setTimeout(resolve, afterMs))]);
  await daemon.end('SIGKILL');
  abort.abort();
  await Promise.all(watching);
  client.close();
  return told;
}

/**
 * Each job that a client was told of is there, ended once, with a log without gaps that begins with what the client
 * saw; the request finds the same job.
 */
async function checkTold(daemon: ChildRunner, told: Told[]): Promise<void> {
  const { exitCode, signalCode } = daemon.child;
  expect([exitCode, signalCode], daemon.stderr).toEqual([null, null]);
  await expectNothingRuns(daemon);
  using client = await RunnerClient.connect({ address: daemon.address });
  for (const { seen, kernelId, requestId } of told) {
    const name = seen[0]?.job;
    if (name === undefined) continue;
    const { job } = await client.getJob({ name });
    const log = await collect(client.watch(name));
    expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
    expect(log.slice(0, seen.length)).toEqual(seen);
    const ends = log.filter(({ payload }) => payload.case === 'finished');
    expect([ends.length, log.at(-1)!.payload.case, JobState[job!.state], Number(job!.lastSequence)]).toEqual([
      1,
      'finished',
      'ENDED',
      log.length,
    ]);
    expect(ends[0]!.payload.value).toMatchObject({ outcome: job!.outcome, summary: job!.summary });
    if (seen.at(-1)!.payload.case !== 'finished')
      expect([Outcome.INTERRUPTED, Outcome.PASSED, Outcome.ERROR]).toContain(job!.outcome);
    const again = await collect(client.start('build', { ...kernel(kernelId), options: { requestId } }));
    expect(again[0]!.job).toBe(name);
  }
}
