/**
 * Makes every call of the store fail with ENOSPC, EIO and SQLITE_BUSY while jobs run. The daemon survives, reports that
 * it accepts no work, and continues when the fault is gone.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import {
  collect,
  finished,
  firstEvent,
  kernel,
  startChildRunner,
  startChildRunnerIn,
  temporaryFolder,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, JobState, Outcome } from '@flashcore/shared/contract';
import { until } from '@flashcore/shared/testing';
import { expect } from 'vitest';
import { campaign, integer, pick, seededUuid } from './campaign.ts';

const KERNELS = ['ok', 'ticks_40', 'flood_900', 'sleep_200', 'error'];
/**
 * How long the lock is held: as long as another program's backup might hold it. A lock of this length once ended a
 * runner and its later jobs.
 */
const LOCKED_MS = 4_000;
/** Time limit for a call that writes nothing while the lock is held. It leaves room for a busy machine. */
const ANSWER_MS = 1_000;
/** Errors that a client may get while nothing can be stored. */
const TOLD = ['DISK_FULL', 'STORE_UNAVAILABLE', 'JOB_NOT_FOUND'];

campaign(
  'the store fails while jobs run',
  { promise: 'store-failure', rounds: { ci: 4, soak: 150 } },
  async ({ random, rounds, figure }) => {
    const counts = { refused: 0, ended: 0 };
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      const fault = `${pick(random, ['ENOSPC', 'EIO', 'SQLITE_BUSY'])} ${integer(random, 1, 60)} ${integer(random, 100, 900)}`;
      const environment = { ...process.env, FLASHCORE_STORE_FAULT: fault };
      // The next test covers a store that fails from the first call on, which is an error at the start.
      await (await startChildRunner(...flags(folder.path))).end('SIGTERM');
      await using daemon = await startChildRunnerIn(environment, ...flags(folder.path));
      using client = await RunnerClient.connect({ address: daemon.address });
      const wanted = KERNELS.map((kernelId) => ({ kernelId, requestId: seededUuid(random) }));
      const names = await Promise.all(wanted.map((one) => run(client, one, counts)));
      await upload(client);
      await serving(client, daemon, fault);
      // Every job whose name a client learned has ended once, and its log is complete.
      for (const name of new Set(names.filter((one) => one !== undefined))) {
        await until(async () => (await client.getJob({ name })).job?.state === JobState.ENDED);
        const log = await collect(client.watch(name));
        expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
        expect(log.filter(({ payload }) => payload.case === 'finished')).toHaveLength(1);
        counts.ended += 1;
      }
      expect(await daemon.end('SIGTERM'), fault).toBe(0);
    }
    figure(
      'store calls that fail with a job running (ENOSPC, EIO, SQLITE_BUSY)',
      `${rounds} faults of 0.1 to 0.9 s; no runner ended, ${counts.refused} requests refused with the reason, ${counts.ended} jobs told of, one end each; each runner served again by itself`,
    );
  },
);

campaign(
  'another process holds the write lock while a job runs',
  { promise: 'store-failure', rounds: { ci: 1, soak: 10 } },
  async ({ rounds, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner(...flags(folder.path));
    using client = await RunnerClient.connect({ address: daemon.address });
    let slowestMs = 0;
    for (let round = 0; round < rounds; round += 1) {
      const running = client.start('build', kernel('ticks_400'));
      await firstEvent(running);
      using other = new DatabaseSync(join(folder.path, 'data/flashcore.db'), { timeout: 5_000 });
      other.exec('BEGIN IMMEDIATE');
      for (const freeAtMs = performance.now() + LOCKED_MS; performance.now() < freeAtMs;) {
        const askedMs = performance.now();
        await client.getHost();
        slowestMs = Math.max(slowestMs, performance.now() - askedMs);
      }
      other.exec('COMMIT');
      const { jobs } = await client.listJobs();
      const log = await collect(client.watch(jobs[0]!.name));
      expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
      expect(finished(log).outcome).toBe(Outcome.PASSED);
      expect(daemon.child.exitCode).toBe(null);
    }
    expect(slowestMs).toBeLessThan(ANSWER_MS);
    figure(
      'write locks held by another process',
      `${rounds} of ${LOCKED_MS / 1000} s with a job running; each job passed with a whole log, and the runner answered within ${slowestMs.toFixed(0)} ms`,
    );
  },
);

campaign(
  'a start on a full disk serves what is stored',
  { promise: 'store-failure', rounds: { ci: 1, soak: 10 } },
  async ({ rounds, figure }) => {
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      const before = await startChildRunner(...flags(folder.path));
      using first = await RunnerClient.connect({ address: before.address });
      const passed = await collect(first.start('build', kernel('flood_40')));
      await firstEvent(first.start('build', kernel('hang')));
      await before.end('SIGKILL');
      await using full = await startChildRunnerIn(
        { ...process.env, FLASHCORE_STORE_FAULT: 'ENOSPC 1 3000' },
        ...flags(folder.path),
      );
      using client = await RunnerClient.connect({ address: full.address });
      expect(await collect(client.watch(passed[0]!.job))).toEqual(passed);
      await expect(collect(client.start('build', kernel('ok')))).rejects.toMatchObject({ reason: 'DISK_FULL' });
      await serving(client, full, 'a full disk at the start');
      const { jobs } = await client.listJobs();
      expect(jobs.map(({ state, outcome }) => [state, outcome])).toContainEqual([JobState.ENDED, Outcome.INTERRUPTED]);
    }
    figure('starts on a full disk', `${rounds}; what was stored is served, new work refused until there is room`);
  },
);

campaign(
  'a job on a full disk: its watchers are told within seconds, and read its end when there is room',
  { promise: 'store-failure', rounds: { ci: 1, soak: 10 } },
  async ({ rounds, figure }) => {
    let longestMs = 0;
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      await using daemon = await startChildRunnerIn(
        { ...process.env, FLASHCORE_STORE_FAULT: 'ENOSPC 40 12000' },
        ...flags(folder.path),
      );
      using client = await RunnerClient.connect({ address: daemon.address });
      let name = '';
      let lastMs = 0;
      const watched = (async () => {
        for await (const event of client.start('build', kernel('ticks_400'))) {
          name = event.job;
          lastMs = performance.now();
        }
      })();
      await expect(watched).rejects.toMatchObject({
        reason: 'DISK_FULL',
        message: expect.stringContaining(name) as string,
      });
      longestMs = Math.max(longestMs, performance.now() - lastMs);
      await serving(client, daemon, 'a disk that is full for 12 s');
      const log = await collect(client.watch(name));
      expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
      expect(finished(log).outcome).toBe(Outcome.ERROR);
    }
    expect(longestMs).toBeLessThan(11_000);
    figure('jobs on a full disk', `${rounds}; watchers were told after ${(longestMs / 1000).toFixed(1)} s at most`);
  },
);

campaign(
  'a start on a disk without a free byte, after a clean stop, serves what is stored',
  { promise: 'store-failure', rounds: { ci: 1, soak: 10 } },
  async ({ rounds, figure }) => {
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      using disk = smallDisk(join(folder.path, 'disk'));
      if (!disk) return figure('starts on a disk without a free byte', 'not tried: this user may mount nothing');
      const where = ['--data', join(disk.path, 'data'), '--address', `unix:${folder.path}/s`];
      const before = await startChildRunner(...where);
      using first = await RunnerClient.connect({ address: before.address });
      const passed = await collect(first.start('build', kernel('flood_40')));
      expect(await before.end('SIGTERM')).toBe(0);
      disk.fill();
      await using daemon = await startChildRunner(...where);
      using client = await RunnerClient.connect({ address: daemon.address });
      expect(await collect(client.watch(passed[0]!.job))).toEqual(passed);
      await expect(collect(client.start('build', kernel('ok')))).rejects.toMatchObject({ reason: 'DISK_FULL' });
      disk.empty();
      await serving(client, daemon, 'a disk without a free byte');
    }
    figure('starts on a disk without a free byte', `${rounds}; what was stored is served until there is room`);
  },
);

/** Mounts a file system of 8 MiB. Undefined if this user may not mount one. */
function smallDisk(path: string): (Disposable & { path: string; fill(): void; empty(): void }) | undefined {
  mkdirSync(path);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', path]).status !== 0) return undefined;
  const filling = join(path, 'filling');
  return {
    path,
    fill: () => {
      expect(spawnSync('sh', ['-c', 'cat /dev/zero >"$0"', filling], { encoding: 'utf8' }).stderr).toMatch(/No space/);
    },
    empty: () => rmSync(filling),
    [Symbol.dispose]: () => expect(spawnSync('umount', ['-l', path]).status).toBe(0),
  };
}

const flags = (folder: string): string[] => ['--data', join(folder, 'data'), '--address', `unix:${folder}/s`];

/** Runs a job to its end. Returns the name that the client learned, or undefined if the job was refused. */
async function run(
  client: RunnerClient,
  { kernelId, requestId }: { kernelId: string; requestId: string },
  counts: { refused: number },
): Promise<string | undefined> {
  let name: string | undefined;
  try {
    for await (const event of client.start('build', { ...kernel(kernelId), options: { requestId } })) name = event.job;
  } catch (error) {
    expect(error).toBeInstanceOf(FlashcoreError);
    expect(TOLD).toContain((error as FlashcoreError).reason);
    counts.refused += 1;
  }
  return name;
}

/** Uploads a file while the store may fail. */
async function upload(client: RunnerClient): Promise<void> {
  try {
    await client.findMissingSources({ files: [] });
  } catch (error) {
    expect((error as FlashcoreError).reason).toBe('INVALID_REQUEST');
  }
}

/** Waits until the runner accepts work again by itself. */
async function serving(client: RunnerClient, daemon: ChildRunner, fault: string): Promise<void> {
  await until(async () => {
    expect([daemon.child.exitCode, daemon.child.signalCode], `${fault}\n${daemon.stderr}`).toEqual([null, null]);
    try {
      const events = await collect(client.start('build', kernel('ok')));
      return events.at(-1)?.payload.case === 'finished';
    } catch (error) {
      expect(TOLD).toContain((error as FlashcoreError).reason);
      // eslint-disable-next-line flashcore/no-fixed-wait -- retries at this interval
      await setTimeout(100);
      return false;
    }
  });
}
