/**
 * The daemon does not leak: its memory, descriptors and threads stay constant over a series of jobs, cancellations, cut
 * streams and bad requests.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  collect,
  firstEvent,
  kernel,
  startChildRunnerIn,
  temporaryFolder,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { type Random } from '@flashcore/shared/statistics';
import { expect } from 'vitest';
import { campaign, inLanes, pick } from './campaign.ts';

const LANES = 4;
/** The relative growth that the soak allows. */
const FLAT = 0.05;
const SETTLED = 0.01;

campaign(
  'a stretch of jobs with faults',
  { promise: 'no-leak', rounds: { ci: 4, soak: 60 } },
  async ({ random, rounds: seconds, soak, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunnerIn(
      { ...process.env, NODE_OPTIONS: '--expose-gc' },
      '--data',
      join(folder.path, 'data'),
      '--address',
      `unix:${folder.path}/s`,
    );
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
    const { state: before, chunks } = await warmUp(
      daemon,
      work,
      soak ? { chunkMs: 10_000, most: 12 } : { chunkMs: 1_500, most: 2 },
    );
    await work(seconds * 1_000);
    const after = await settled(daemon);
    const growth = (figure: 'liveMiB' | 'rssMiB'): number => after[figure] / before[figure] - 1;
    const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;
    figure(
      'soak with faults',
      `${seconds} s, ${jobs} jobs, after a warm-up of ${chunks} stretches; resident ${before.rssMiB.toFixed(1)} to ${after.rssMiB.toFixed(1)} MiB (${percent(growth('rssMiB'))}), in use ${before.liveMiB.toFixed(1)} to ${after.liveMiB.toFixed(1)} MiB (${percent(growth('liveMiB'))}), descriptors ${before.descriptors} to ${after.descriptors}, threads ${before.threads} to ${after.threads}`,
    );
    expect(after.descriptors).toBeLessThanOrEqual(before.descriptors);
    expect(after.threads).toBeLessThanOrEqual(before.threads);
    expect(readdirSync(join(folder.path, 'data/sources/files/incoming'))).toEqual([]);
    // During the few seconds of `npm run test:all`, code is still being compiled, so the bound is loose. Only the
    // soak's bound is tight.
    expect(growth('liveMiB')).toBeLessThan(soak ? FLAT : 0.3);
    expect(growth('rssMiB')).toBeLessThan(soak ? FLAT : 0.5);
  },
);

type State = Awaited<ReturnType<typeof settled>>;

/**
 * Repeats the work until a repetition changes the resident memory by less than 1 %. By then V8 has compiled the code,
 * and SQLite's cache and malloc's arenas have reached their final size.
 */
async function warmUp(
  daemon: ChildRunner,
  work: (forMs: number) => Promise<void>,
  { chunkMs, most }: { chunkMs: number; most: number },
): Promise<{ state: State; chunks: number }> {
  let last = await settled(daemon);
  for (let chunks = 1; ; chunks += 1) {
    await work(chunkMs);
    const now = await settled(daemon);
    if (chunks >= most || Math.abs(now.rssMiB / last.rssMiB - 1) < SETTLED) return { state: now, chunks };
    last = now;
  }
}

async function oneJob(random: Random, daemon: ChildRunner): Promise<void> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const way = random.uniform();
  if (way < 0.2) {
    // The client drops the stream after its first event and then cancels the job.
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

async function settled({
  child,
  rssMiB,
  liveMiB,
}: ChildRunner): Promise<{ rssMiB: number; liveMiB: number; descriptors: number; threads: number }> {
  // eslint-disable-next-line flashcore/no-fixed-wait -- what a job held is freed some time after its end
  await sleep(300);
  const folder = `/proc/${child.pid}`;
  if (!existsSync(folder)) throw new Error('the daemon has ended');
  return {
    // Measured after a garbage collection, so that it counts only what the daemon keeps.
    liveMiB: await liveMiB(),
    rssMiB: rssMiB(),
    descriptors: readdirSync(`${folder}/fd`).length,
    threads: Number(/^Threads:\s+(\d+)/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1]),
  };
}
