/**
 * kill -9 of the daemon, at random moments and at every step of its store: everything that a client knows of still
 * exists after the restart.
 */
import { existsSync, readFileSync } from 'node:fs';
import { startChildRunner, startChildRunnerIn, temporaryFolder } from '@flashcore/runner/testing-daemon';
import { expect } from 'vitest';
import { campaign, integer, percentile, pick, seededUuid } from './campaign.ts';
import { checkTold, expectResolved, flags, loadUntilKilled, type Told } from './told-jobs.ts';

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
      await expectResolved(daemon, told);
      const waited = waitedMs('self') - waitedBefore + waitedMs(daemon.child.pid!);
      restartsMs.push(performance.now() - restart - waited);
      // Every third round also checks the jobs of the two rounds before it. That is late enough, because logs do not
      // change after they end.
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
      // Measured when the daemon ends, because a client may keep looking for it for some seconds more.
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

/** How long a process has waited for a processor since it started, as Linux counts it; 0 if unknown. */
function waitedMs(pid: number | 'self'): number {
  const path = `/proc/${pid}/schedstat`;
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0;
}
