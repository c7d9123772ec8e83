/**
 * Thousands of requests at once: the queue is bounded, a refused client learns when to try again, and the health check
 * stays fast. Then two SIGTERMs come under that load, while a job that ignores its cancellation runs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { firstEvent, kernel, startChildRunner, temporaryFolder } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, type FlashcoreError } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { RawClient } from '../support/raw-call.ts';
import { campaign, inLanes, percentile } from './campaign.ts';

const LANES = 8;
const MAX_QUEUED = 64;

campaign(
  'submits beyond the queue, then SIGTERM twice',
  { promise: 'overload', rounds: { ci: 500, soak: 5_000 } },
  async ({ rounds, soak, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner(
      '--data',
      `${folder.path}/data`,
      '--address',
      `unix:${folder.path}/s`,
      '--max-queued',
      String(MAX_QUEUED),
      '--grace-seconds',
      '1',
    );
    using client = await RunnerClient.connect({ address: daemon.address });
    await firstEvent(client.start('build', kernel('stubborn_600000')));
    const health = measureHealth(daemon.address);
    const answers = new Map<string, number>();
    await inLanes(LANES, Array.from({ length: rounds }), async () => {
      const answer = await firstEvent(client.start('build', kernel('ok'))).then(
        () => 'taken',
        ({ reason, retryAfterSeconds }: FlashcoreError) => `${reason}, try again in ${retryAfterSeconds} s`,
      );
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
    });
    const latencies = await health.end();
    expect(Object.fromEntries(answers)).toEqual({
      taken: MAX_QUEUED,
      'QUEUE_FULL, try again in 5 s': rounds - MAX_QUEUED,
    });
    expect((await client.listJobs({ state: JobState.QUEUED, pageSize: 1000 })).jobs).toHaveLength(MAX_QUEUED);
    expect(percentile(latencies, 0.99)).toBeLessThan(soak ? 500 : 2_000);
    const started = performance.now();
    daemon.child.kill('SIGTERM');
    // eslint-disable-next-line flashcore/no-fixed-wait -- the second signal must not merge with the first
    await sleep(200);
    expect(await daemon.end('SIGTERM')).toBe(0);
    const seconds = (performance.now() - started) / 1000;
    expect(seconds).toBeLessThan(15);
    figure(
      'submits beyond the queue',
      `${rounds} at once: ${[...answers].map(([answer, count]) => `${count} ${answer}`).join('; ')}; health p99 ${percentile(latencies, 0.99).toFixed(1)} ms meanwhile; two SIGTERM with a job that ignores them: exit status 0 after ${seconds.toFixed(1)} s`,
    );
  },
);

function measureHealth(address: string): { end(): Promise<number[]> } {
  const latencies: number[] = [];
  let running = true;
  const loop = (async () => {
    using raw = new RawClient(address);
    while (running) {
      latencies.push(await raw.health());
      // eslint-disable-next-line flashcore/no-fixed-wait -- polls at this interval
      await sleep(5);
    }
  })();
  return {
    end: () => {
      running = false;
      return loop.then(() => latencies);
    },
  };
}
