/**
 * A slow watcher neither slows a job nor makes memory grow: fifty watchers never read while a job writes 100,000 log
 * lines. Also measures how fast a reading watcher is served.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, credentials, type ClientReadableStream } from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import {
  LATE_MS,
  collect,
  finished,
  firstEvent,
  kernel,
  startChildRunnerIn,
  temporaryFolder,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, WatchJobRequestSchema } from '@flashcore/shared/contract';
import { blockRatioInterval } from '@flashcore/shared/statistics';
import { expect } from 'vitest';
import { campaign, percentile } from './campaign.ts';

const WATCHERS = 50;
/** The lower limit is for `npm run test:all`, where other tests use the processors too. */
const MIN_EVENTS_PER_SECOND = { soak: 20_000, ci: 4_000 };
const MAX_GROWTH_MIB = 100;

campaign(
  'paused watchers and a flood of log lines',
  { promise: 'slow-watchers', rounds: { ci: 1, soak: 24 } },
  async ({ rounds, soak, figure }) => {
    using folder = temporaryFolder();
    const lines = soak ? 100_000 : 20_000;
    await using daemon = await startChildRunnerIn(
      { ...process.env },
      '--data',
      `${folder.path}/data`,
      '--address',
      `unix:${folder.path}/s`,
    );
    // During the first jobs, code is compiled and memory grows to its final size.
    for (let round = 0; round < (soak ? 3 : 1); round += 1) await timeJob(daemon, lines, 0);
    const alone: number[] = [];
    const watched: number[] = [];
    const before = daemon.rssMiB();
    let most = before;
    // Runs with and without watchers take turns, in an order that each round reverses, because the other load on the
    // machine changes.
    for (let round = 0; round < rounds; round += 1) {
      for (const watchers of round % 2 === 0 ? [0, WATCHERS] : [WATCHERS, 0]) {
        const { seconds, rssMiB } = await timeJob(daemon, lines, watchers);
        (watchers === 0 ? alone : watched).push(seconds);
        most = Math.max(most, rssMiB);
      }
    }
    const { ratio, low, high } = blockRatioInterval(watched, alone, { perBlock: 1 });
    const longer = (value: number): string => ((value - 1) * 100).toFixed(1);
    figure(
      'paused watchers',
      `${WATCHERS} paused watchers, ${lines} log lines, ${rounds} rounds: resident memory grew by ${(most - before).toFixed(0)} MiB at most, the job took ${longer(ratio)} % longer (95 % interval ${longer(low)} to ${longer(high)} %; ${percentile(alone, 0.5).toFixed(2)} s alone)`,
    );
    expect(most - before).toBeLessThan(MAX_GROWTH_MIB);
    // Only the soak judges time, because in `npm run test:all` other tests use the processors at the same time.
    if (soak) expect(ratio).toBeLessThan(1.05);
  },
);

/**
 * Returns how many seconds the job's flood took, by the times of its events, and the daemon's memory at its end.
 * Watchers connect before the flood. The number of open connections is the same with and without watchers.
 */
async function timeJob(
  daemon: ChildRunner,
  lines: number,
  watchers: number,
): Promise<{ seconds: number; rssMiB: number }> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const idle = await Promise.all(Array.from({ length: WATCHERS }, () => PausedWatcher.connect(daemon.address)));
  const { job } = await firstEvent(client.start('build', kernel(`late_${lines}`)));
  idle.slice(0, watchers).forEach((watcher) => watcher.watch(job));
  for (;;) {
    // eslint-disable-next-line flashcore/no-fixed-wait -- polls at this interval
    await sleep(50);
    const { job: state } = await client.getJob({ name: job });
    if (!state!.endTime) continue;
    // eslint-disable-next-line flashcore/no-fixed-wait -- what the flood held is freed some time after its end
    await sleep(500);
    const rssMiB = daemon.rssMiB();
    idle.forEach((watcher) => watcher[Symbol.dispose]());
    const ms = (time: { seconds: bigint; nanos: number }): number => Number(time.seconds) * 1000 + time.nanos / 1e6;
    return { seconds: (ms(state!.endTime) - ms(state!.startTime!) - LATE_MS) / 1000, rssMiB };
  }
}

/**
 * A client on its own connection that requests a job's events and reads one. For a client that has never read, grpc-js
 * buffers without limit. After one read, grpc-js stops the sender.
 */
class PausedWatcher implements Disposable {
  readonly #client: Client;
  #call: ClientReadableStream<Buffer> | undefined;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async connect(address: string): Promise<PausedWatcher> {
    const client = new Client(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
    await new Promise<void>((resolve, reject) =>
      client.waitForReady(Date.now() + 5_000, (error) => (error ? reject(error) : resolve())),
    );
    return new PausedWatcher(client);
  }

  watch(job: string): void {
    const pass = (value: Buffer): Buffer => value;
    const call = this.#client.makeServerStreamRequest(
      '/flashcore.runner.v1.KernelRunnerService/WatchJob',
      pass,
      pass,
      Buffer.from(toBinary(WatchJobRequestSchema, create(WatchJobRequestSchema, { name: job }))),
    );
    call.once('data', () => call.pause());
    call.on('error', () => undefined); // The test cuts the call at its end.
    this.#call = call;
  }

  [Symbol.dispose](): void {
    this.#call?.cancel();
    this.#client.close();
  }
}

campaign(
  'events stored and streamed to one watcher',
  { promise: 'slow-watchers', rounds: { ci: 1, soak: 5 } },
  async ({ rounds, soak, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunnerIn(
      { ...process.env },
      '--data',
      `${folder.path}/data`,
      '--address',
      `unix:${folder.path}/s`,
    );
    using client = await RunnerClient.connect({ address: daemon.address });
    const lines = 50_000;
    const rates: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const started = performance.now();
      const events = await collect(client.start('build', kernel(`flood_${lines}`)));
      rates.push(events.length / ((performance.now() - started) / 1000));
      expect([events.length, finished(events).outcome]).toEqual([lines + 3, Outcome.PASSED]);
    }
    figure(
      'events stored and streamed to one watcher',
      `${percentile(rates, 0.5).toFixed(0)} events/s (${rounds} rounds of ${lines}; least ${Math.min(...rates).toFixed(0)})`,
    );
    expect(Math.max(...rates)).toBeGreaterThan(MIN_EVENTS_PER_SECOND[soak ? 'soak' : 'ci']);
  },
);
