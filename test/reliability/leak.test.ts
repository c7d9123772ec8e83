/** No leak: memory, descriptors and threads of the daemon are flat over a stretch of jobs, cancels, cut streams and bad requests. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { collect, firstEvent, kernel, startChildRunnerIn, temporaryFolder, type ChildRunner } from '@flashcore/runner/testing-daemon';
import { RunnerClient, type Random } from '@flashcore/shared';
import { expect } from 'vitest';
import { campaign, inLanes, pick } from './campaign.ts';

const LANES = 4;

campaign('a stretch of jobs with faults', { promise: 'no leak over a soak with faults', rounds: { ci: 4, soak: 60 } }, async ({ random, rounds: seconds, soak, figure }) => {
  using folder = temporaryFolder();
  await using daemon = await startChildRunnerIn({ ...process.env, NODE_OPTIONS: '--expose-gc' }, '--data', join(folder.path, 'data'), '--address', `unix:${folder.path}/s`);
  let jobs = 0;
  const work = async (forMs: number): Promise<void> => {
    const end = performance.now() + forMs;
    await inLanes(LANES, Array.from({ length: LANES }), async () => {
      while (performance.now() < end) {
        await oneJob(random, daemon);
        jobs += 1;
      }
    });
  };
  // The heap and the database's cache find their size first.
  await work(Math.max(2_000, seconds * 250));
  const before = await settled(daemon);
  await work(seconds * 1_000);
  const after = await settled(daemon);
  expect(after.descriptors).toBeLessThanOrEqual(before.descriptors + 2);
  expect(after.threads).toBeLessThanOrEqual(before.threads);
  expect(readdirSync(join(folder.path, 'data/sources/files/incoming'))).toEqual([]);
  // In a few seconds code is still being compiled.
  const growth = after.liveMiB / before.liveMiB - 1;
  expect(growth).toBeLessThan(soak ? 0.05 : 0.3);
  // V8 and malloc keep what they once had: the resident size tells of peaks, and only bounds a leak.
  expect(after.rssMiB - before.rssMiB).toBeLessThan(100);
  figure('soak with faults', `${seconds} s, ${jobs} jobs; memory in use ${before.liveMiB.toFixed(1)} to ${after.liveMiB.toFixed(1)} MiB (${(growth * 100).toFixed(1)} %), resident ${before.rssMiB.toFixed(0)} to ${after.rssMiB.toFixed(0)} MiB, descriptors ${before.descriptors} to ${after.descriptors}`);
});

async function oneJob(random: Random, daemon: ChildRunner): Promise<void> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const way = random.uniform();
  if (way < 0.2) {
    // Its stream is dropped, and the job cancelled.
    const { job } = await firstEvent(client.start('build', kernel('hang')));
    await client.cancelJob({ name: job });
    await collect(client.watch(job));
  } else if (way < 0.4) {
    const { job } = await firstEvent(client.start('build', kernel('flood_300')));
    await collect(client.watch(job, { afterSequence: 1 }));
  } else if (way < 0.5) {
    await expect(client.getJob({ name: 'jobs/none' })).rejects.toThrow();
  } else {
    await collect(client.start('build', kernel(pick(random, ['ok', 'flood_100', 'error', 'bug', 'sleep_2']))));
  }
}

async function settled({ child, rssMiB, liveMiB }: ChildRunner): Promise<{ rssMiB: number; liveMiB: number; descriptors: number; threads: number }> {
  await sleep(300);
  const folder = `/proc/${child.pid}`;
  if (!existsSync(folder)) throw new Error('the daemon has ended');
  return {
    liveMiB: await liveMiB(),
    rssMiB: rssMiB(),
    descriptors: readdirSync(`${folder}/fd`).length,
    threads: Number(/^Threads:\s+(\d+)/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1]),
  };
}
