/** kill -9 of the daemon during a job: after a restart the job is there and has ended. */
import { expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import {
  JobState,
  Outcome,
  RunExperimentRequestSchema,
  type BenchmarkResult,
  type JobEvent,
} from '@flashcore/shared/contract';
import { create } from '@bufbuild/protobuf';
import { Home } from '../support/home.ts';
import { waitFor } from '../support/wait-for.ts';

test('a job that ran when the daemon was killed is INTERRUPTED after the restart, its events without a gap', async () => {
  await using home = new Home();
  const first = await home.startDaemon();
  const client = await RunnerClient.connect({ address: first.address });
  const seen: JobEvent[] = [];
  const abort = new AbortController();
  const watching = collect(client, seen, abort.signal);
  await waitFor('the job to run', () => seen.some(({ payload }) => payload.case === 'started') || undefined);

  first.process.kill('SIGKILL');
  abort.abort();
  await watching;
  client.close();

  const second = await home.startDaemon();
  const again = await RunnerClient.connect({ address: second.address });
  try {
    const name = seen[0]!.job;
    const { job } = await again.getJob({ name });
    expect([JobState[job!.state], Outcome[job!.outcome]]).toEqual(['ENDED', 'INTERRUPTED']);
    const log: JobEvent[] = [];
    for await (const event of again.watch(name, { afterSequence: 0n })) log.push(event);
    expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
    expect(log.slice(0, seen.length)).toEqual(seen);
    expect(log.at(-1)!.payload.case).toBe('finished');
  } finally {
    again.close();
  }
}, 60_000);

test('raw samples that a client was told of are there after kill -9', async () => {
  await using home = new Home();
  const first = await home.startDaemon();
  const shapes = [{ batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }];
  let result: BenchmarkResult | undefined;
  {
    using client = await RunnerClient.connect({ address: first.address });
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
  using client = await RunnerClient.connect({ address: second.address });
  const { sha256, sizeBytes } = result!.samples!;
  const bytes = await client.readArtifact(sha256);
  expect([bytes.length, BigInt(bytes.length)]).toEqual([
    4 * (result!.latency!.samples + result!.latency!.dropped),
    sizeBytes,
  ]);
}, 60_000);

async function collect(client: RunnerClient, into: JobEvent[], signal: AbortSignal): Promise<void> {
  const request = create(RunExperimentRequestSchema, {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
  });
  try {
    for await (const event of client.start('runExperiment', request, { signal })) into.push(event);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
