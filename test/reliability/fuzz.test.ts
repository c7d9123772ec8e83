/**
 * Random messages and random bytes for every RPC: the daemon answers each, never with UNKNOWN or INTERNAL, and its
 * health check stays fast.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { toBinary, type DescMessage } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import {
  collect,
  finished,
  kernel,
  startChildRunner,
  temporaryFolder,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient, type RpcName } from '@flashcore/shared/client';
import { Outcome, KernelRunnerService } from '@flashcore/shared/contract';
import { type Random } from '@flashcore/shared/statistics';
import { expect } from 'vitest';
import { jobOf, RawClient, type RawAnswer } from '../support/raw-call.ts';
import { campaign, inLanes, integer, percentile, pick } from './campaign.ts';
import { randomMessage } from './random-messages.ts';

const RPCS = Object.keys(KernelRunnerService.method) as RpcName[];
const NEVER = [status.UNKNOWN, status.INTERNAL, status.DEADLINE_EXCEEDED, status.CANCELLED];
const LANES = 8;

campaign(
  'random messages and bytes to every RPC',
  { promise: 'bad-input', rounds: { ci: 1_500, soak: 10_000 } },
  async ({ random, rounds, soak, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner('--data', `${folder.path}/data`, '--address', `unix:${folder.path}/s`);
    using raw = new RawClient(daemon.address);
    const jobs = [await startOne(daemon), 'jobs/none'];
    const health = watchHealth(daemon.address);
    const codes = new Map<string, number>();
    const requests = Array.from({ length: rounds }, () => ({
      rpc: pick(random, RPCS),
      seed: integer(random, 0, 2 ** 31),
    }));
    await inLanes(LANES, requests, async ({ rpc }) => {
      const bytes = randomRequest(random, rpc, jobs);
      const answer = await raw.call(rpc, bytes);
      codes.set(status[answer.code], (codes.get(status[answer.code]) ?? 0) + 1);
      expect(NEVER, `${rpc} ${Buffer.concat(bytes).toString('hex').slice(0, 2_000)}: ${answer.details}`).not.toContain(
        answer.code,
      );
      remember(jobs, answer);
    });
    const latencies = await health.end();
    expect([daemon.child.exitCode, daemon.child.signalCode], daemon.stderr).toEqual([null, null]);
    expect(percentile(latencies, 0.99)).toBeLessThan(soak ? 50 : 1_000);
    await startOne(daemon);
    const told = [...codes]
      .sort(([, a], [, b]) => b - a)
      .map(([code, count]) => `${count} ${code}`)
      .join(', ');
    figure(
      'fuzzed requests',
      `${rounds}: ${told}; health p99 ${percentile(latencies, 0.99).toFixed(1)} ms over ${latencies.length} checks meanwhile`,
    );
  },
);

campaign(
  'random bytes instead of HTTP/2',
  { promise: 'bad-input', rounds: { ci: 60, soak: 1_000 } },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner('--data', `${folder.path}/data`, '--address', `unix:${folder.path}/s`);
    const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    await inLanes(LANES, Array.from({ length: rounds }), async () => {
      const socket = connect(`${folder.path}/s`);
      socket.on('error', () => undefined); // A reset is a correct answer.
      await once(socket, 'connect');
      const noise = randomBytes(integer(random, 1, 4096));
      socket.write(random.uniform() < 0.5 ? Buffer.concat([preface, noise]) : noise);
      // eslint-disable-next-line flashcore/no-fixed-wait -- connections end at any moment
      await sleep(integer(random, 0, 20));
      socket.destroy();
    });
    await startOne(daemon);
    figure('connections that speak no HTTP/2', `${rounds}; the next client is served`);
  },
);

async function startOne(daemon: ChildRunner): Promise<string> {
  using client = await RunnerClient.connect({ address: daemon.address });
  const events = await collect(client.start('build', kernel('flood_5')));
  expect(finished(events).outcome).toBe(Outcome.PASSED);
  return events[0]!.job;
}

function remember(jobs: string[], answer: RawAnswer): void {
  const job =
    answer.code === status.OK && answer.messages.length > 0 && jobs.length < 20 ? tryJobOf(answer) : undefined;
  if (job?.startsWith('jobs/')) jobs.push(job);
}

/** The job in an answer, if there is one. Answers of RPCs that start no job may not decode as an event. */
function tryJobOf(answer: RawAnswer): string | undefined {
  try {
    return jobOf(answer);
  } catch {
    return undefined;
  }
}

function watchHealth(address: string): { end(): Promise<number[]> } {
  const client = new RawClient(address);
  const latencies: number[] = [];
  let running = true;
  const loop = (async () => {
    while (running) {
      latencies.push(await client.health());
      // eslint-disable-next-line flashcore/no-fixed-wait -- polls at this interval
      await sleep(5);
    }
    client[Symbol.dispose]();
  })();
  return {
    end: async () => {
      running = false;
      await loop;
      return latencies;
    },
  };
}

/** Mostly messages with extreme values, some of them with flipped bits or cut off, or only random bytes. */
function randomRequest(random: Random, rpc: RpcName, jobs: string[]): Buffer[] {
  const { input, methodKind } = KernelRunnerService.method[rpc];
  const count = methodKind === 'client_streaming' ? integer(random, 0, 4) : 1;
  return Array.from({ length: count }, () => {
    const way = random.uniform();
    if (way < 0.1) return randomBytes(integer(random, 0, 300));
    const bytes = Buffer.from(toBinary(input as DescMessage, randomMessage(random, input, jobs, 0)));
    if (way < 0.25 && bytes.length > 0) bytes[integer(random, 0, bytes.length - 1)]! ^= 1 << integer(random, 0, 7);
    return way > 0.95 ? bytes.subarray(0, integer(random, 0, bytes.length)) : bytes;
  });
}
