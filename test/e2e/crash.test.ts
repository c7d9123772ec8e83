/** kill -9 of the daemon during a job: after a restart the job still exists and has ended. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, Outcome, type BenchmarkResult, type JobEvent } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { PATIENT_MS } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

test('a job that ran when the daemon was killed is INTERRUPTED after the restart, without a gap in its events, and runs again on request', async () => {
  await using home = new Home();
  const first = await home.startDaemon();
  const requestId = randomUUID();
  const seen: JobEvent[] = [];
  {
    using client = await RunnerClient.connect({ address: first.address, timeoutMs: PATIENT_MS });
    for await (const event of client.start('verify', verifyRequest({ requestId }))) {
      seen.push(event);
      if (event.payload.case === 'started') break;
    }
    first.process.kill('SIGKILL');
  }

  const second = await home.startDaemon();
  using client = await RunnerClient.connect({ address: second.address, timeoutMs: PATIENT_MS });
  const name = seen[0]!.job;
  const { job } = await client.getJob({ name });
  expect([JobState[job!.state], Outcome[job!.outcome]]).toEqual(['ENDED', 'INTERRUPTED']);
  const log = await all(client.watch(name, { afterSequence: 0n }));
  expectNoGap(log);
  expect(log.slice(0, seen.length)).toEqual(seen);
  expect(log.at(-1)!.payload.case).toBe('finished');

  expect(await all(client.start('verify', verifyRequest({ requestId })))).toEqual(log);
  const again = await all(client.start('verify', verifyRequest({ requestId, restartInterrupted: true })));
  expectNoGap(again);
  expect(new Set(again.map((event) => event.job))).toEqual(new Set([again[0]!.job]));
  expect(again[0]!.job).not.toBe(name);
  const end = again.at(-1)!.payload;
  expect(end.case === 'finished' && Outcome[end.value.outcome]).toBe('PASSED');
  // The request_id now belongs to the new run, which has ended.
  expect(await all(client.start('verify', verifyRequest({ requestId, restartInterrupted: true })))).toEqual(again);
}, 60_000);

test('jobs that were queued when the daemon was killed run after the restart, each once, also from an uploaded folder', async () => {
  await using home = new Home();
  const first = await home.startDaemon();
  const queued: string[] = [];
  {
    using client = await RunnerClient.connect({ address: first.address, timeoutMs: PATIENT_MS });
    const uploaded = await client.uploadFolder(join(ROOT, 'kernels/fa_v1_baseline'));
    const running = client.start('verify', verifyRequest({ requestId: randomUUID() }))[Symbol.asyncIterator]();
    while ((await running.next()).value?.payload.case !== 'started');
    for (const kernel of [verifyRequest({ requestId: '' }).kernel, uploaded])
      for await (const { job } of client.start('verify', { ...verifyRequest({ requestId: randomUUID() }), kernel })) {
        queued.push(job);
        break;
      }
    first.process.kill('SIGKILL');
  }
  const second = await home.startDaemon();
  using client = await RunnerClient.connect({ address: second.address, timeoutMs: PATIENT_MS });
  for (const name of queued) {
    const log = await all(client.watch(name, { afterSequence: 0n }));
    expectNoGap(log);
    expect(log.filter(({ payload }) => payload.case === 'started')).toHaveLength(1);
    const end = log.at(-1)!.payload;
    expect(end.case === 'finished' && Outcome[end.value.outcome]).toBe('PASSED');
  }
}, 120_000);

test('raw samples that an event has announced to a client survive kill -9', async () => {
  await using home = new Home();
  const first = await home.startDaemon();
  const shapes = [{ batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }];
  let result: BenchmarkResult | undefined;
  {
    using client = await RunnerClient.connect({ address: first.address, timeoutMs: PATIENT_MS });
    for await (const { payload } of client.start('benchmark', {
      kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
      settings: { shapes, protocol: { maxSeconds: 0.3 } },
    })) {
      if (payload.case !== 'benchmarkResult') continue;
      result = payload.value;
      break;
    }
    first.process.kill('SIGKILL');
  }
  const second = await home.startDaemon();
  using client = await RunnerClient.connect({ address: second.address, timeoutMs: PATIENT_MS });
  const { sha256, sizeBytes } = result!.samples!;
  const bytes = await client.readArtifact(sha256);
  expect([bytes.length, BigInt(bytes.length)]).toEqual([
    4 * (result!.latency!.samples + result!.latency!.dropped),
    sizeBytes,
  ]);
}, 60_000);

const verifyRequest = (options: { requestId: string; restartInterrupted?: boolean }) => ({
  kernel: { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } },
  settings: { shapes: [parseShape('1x1x64x64')], seeds: ['1'] },
  options,
});

async function all(stream: AsyncIterable<JobEvent>): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const expectNoGap = (log: readonly JobEvent[]): void =>
  expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
