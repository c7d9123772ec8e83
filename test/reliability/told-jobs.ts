/** Jobs whose names a daemon had sent to clients before it ended in the middle of its work. */
import { join } from 'node:path';
import { collect, kernel, type ChildRunner } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, Outcome, type JobEvent } from '@flashcore/shared/contract';
import { expect } from 'vitest';

export interface Told {
  requestId: string;
  kernelId: string;
  seen: JobEvent[];
  /** When each event arrived, in ns of CLOCK_MONOTONIC. */
  seenAt: bigint[];
}

/** Flags of a daemon whose data is in the folder. */
export const flags = (folder: string): string[] => ['--data', join(folder, 'data'), '--address', `unix:${folder}/s`];

/** Checks that the jobs that clients saw running have ended: the daemon ends them before it answers. */
export async function expectResolved(daemon: ChildRunner, told: readonly Told[]): Promise<void> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const open = [JobState.QUEUED, JobState.RUNNING].map(async (state) => (await client.listJobs({ state })).jobs);
  const names = (await Promise.all(open)).flat().map(({ name }) => name);
  const ran = told.filter(({ seen }) => seen.some(({ payload }) => payload.case === 'started'));
  expect(ran.map(({ seen }) => seen[0]!.job).filter((name) => names.includes(name))).toEqual([]);
}

/** Cancels the jobs that a crash left in the queue, and that run now or wait, one of them for ever. */
async function cancelQueued(client: RunnerClient): Promise<void> {
  for (const state of [JobState.QUEUED, JobState.RUNNING])
    for (const { name } of (await client.listJobs({ state })).jobs) await client.cancelJob({ name });
}

/**
 * Starts jobs, and kills the daemon some time later unless it has ended by itself. Returns what clients had seen until
 * then.
 */
export async function loadUntilKilled(
  daemon: ChildRunner,
  wanted: { kernelId: string; requestId: string }[],
  afterMs: number,
): Promise<Told[]> {
  const client = await RunnerClient.connect({ address: daemon.address }).catch((error: unknown) => {
    // A failpoint may have ended the daemon before the first client connected.
    if (daemon.child.exitCode === null && daemon.child.signalCode === null) throw error;
    return undefined;
  });
  if (!client) return [];
  const abort = new AbortController();
  const told = wanted.map(({ kernelId, requestId }): Told => ({ kernelId, requestId, seen: [], seenAt: [] }));
  const watching = told.map(async ({ kernelId, requestId, seen, seenAt }) => {
    try {
      for await (const event of client.start(
        'build',
        { ...kernel(kernelId), options: { requestId } },
        { signal: abort.signal },
      )) {
        seen.push(event);
        seenAt.push(process.hrtime.bigint());
      }
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
 * Checks that each job exists and has ended once, that its log has no gap and begins with the events that the client
 * saw, and that the same request finds the same job.
 */
export async function checkTold(daemon: ChildRunner, told: Told[]): Promise<void> {
  const { exitCode, signalCode } = daemon.child;
  expect([exitCode, signalCode], daemon.stderr).toEqual([null, null]);
  await expectResolved(daemon, told);
  using client = await RunnerClient.connect({ address: daemon.address });
  await cancelQueued(client);
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
      expect([Outcome.INTERRUPTED, Outcome.CANCELLED, Outcome.PASSED, Outcome.ERROR]).toContain(job!.outcome);
    const again = await collect(client.start('build', { ...kernel(kernelId), options: { requestId } }));
    expect(again[0]!.job).toBe(name);
  }
}
