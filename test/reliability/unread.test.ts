/**
 * Watchers that never read do not make the daemon's memory grow. For a given time the test opens thousands of streams,
 * on few connections and on many.
 */
import type { ClientHttp2Session } from 'node:http2';
import { setTimeout } from 'node:timers/promises';
import {
  collect,
  finished,
  kernel,
  startChildRunnerIn,
  temporaryFolder,
  unreadConnection,
  unreadWatch,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { MINUTES, campaign } from './campaign.ts';

const STREAMS_PER_CONNECTION = 40;
const FAREWELL_MS = 2_000;

campaign(
  'streams that nobody reads, more and more of them',
  { promise: 'slow-watchers', rounds: { ci: 400, soak: 4_000 } },
  async ({ rounds: streams, soak, figure }) => {
    using folder = temporaryFolder();
    const flags = ['--data', `${folder.path}/data`, '--address', `unix:${folder.path}/s`];
    const environment = { ...process.env, NODE_OPTIONS: '--expose-gc' };
    await using daemon = await startChildRunnerIn(environment, ...flags);
    using client = await RunnerClient.connect({ address: daemon.address });
    const job = (await collect(client.start('build', kernel('flood_20000'))))[0]!.job;
    const before = daemon.rssMiB();
    let most = before;
    let opened = 0;
    const round = async (): Promise<void> => {
      const sessions: ClientHttp2Session[] = [];
      for (let count = 0; count < streams; count += STREAMS_PER_CONNECTION) {
        sessions.push(unreadStreams(daemon.address, job));
        await client.listJobs();
        most = Math.max(most, daemon.rssMiB());
      }
      opened += streams;
      sessions.forEach((session) => session.destroy());
    };
    const inUse = async (): Promise<number> => {
      // The runner frees the streams of the previous round when it has seen that their connections are closed.
      // eslint-disable-next-line flashcore/no-fixed-wait -- until the runner has seen that connections are closed
      await setTimeout(FAREWELL_MS);
      return daemon.liveMiB();
    };
    // malloc and V8 keep memory that they have once taken, so only growth after the first round is a leak.
    await round();
    const first = { resident: daemon.rssMiB(), used: await inUse() };
    const until = Date.now() + (soak ? MINUTES * 60_000 : 0);
    do await round();
    while (Date.now() < until);
    expect(finished(await collect(client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
    const last = { resident: daemon.rssMiB(), used: await inUse() };
    figure(
      'streams that nobody reads',
      `${opened} opened, ${streams} at once${soak ? `, ${MINUTES} min` : ''}: resident ${before.toFixed(0)} MiB before, ${first.resident.toFixed(0)} after the first ${streams}, ${last.resident.toFixed(0)} after the last, ${most.toFixed(0)} at most; in use ${first.used.toFixed(1)} and ${last.used.toFixed(1)} MiB`,
    );
    expect(most - before).toBeLessThan(200);
    expect(last.used - first.used).toBeLessThan(10);
  },
);

/** Opens many watches of a job on one connection and reads none of them. */
function unreadStreams(address: string, job: string): ClientHttp2Session {
  const session = unreadConnection(address);
  for (let count = 0; count < STREAMS_PER_CONNECTION; count += 1) unreadWatch(session, job);
  return session;
}
