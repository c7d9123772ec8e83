/**
 * kill -9 of pilots, slurmd, slurmctld and the gateway while experiments run on a real Slurm with two nodes and the
 * emulator as every GPU: each experiment ends exactly once, and its client sees every event once.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, type JobEvent } from '@flashcore/shared/contract';
import type { Random } from '@flashcore/shared/statistics';
import { freePort, missing, waitFor } from '@flashcore/shared/testing';
import { expect } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { readProcess } from '../support/process-tree.ts';
import { startSlurm, type SlurmCluster } from '../support/slurm-cluster.ts';
import { campaign, integer, pick } from './campaign.ts';

/** File to write a run's figures to. By default none is written. */
const RESULT = process.env['FLASHCORE_FLEET_RESULT'];
const VICTIMS = ['pilot', 'slurmd', 'slurmctld', 'gateway'] as const;
const GIVE_UP_MS = 600_000;

type Victim = (typeof VICTIMS)[number];

campaign(
  'experiments on a cluster whose parts are killed',
  {
    promise: 'jobs-survive',
    rounds: { ci: 12, soak: 1_000 },
    skip: missing('slurm-wlm'),
  },
  async ({ random, rounds, soak, seed, figure }) => {
    await using fleet = await startFleet(soak ? 8 : 2);
    // Compiles everything that later experiments need, because pilots that are killed every few seconds would never
    // finish compiling.
    checkStream(await watched(fleet, -1));
    const started = performance.now();
    const ended = new AbortController();
    const killing = killAround(fleet, {
      random,
      everyMs: [2_000, 6_000],
      most: soak ? Infinity : 4,
      signal: ended.signal,
    });
    const seen: JobEvent[][] = [];
    let killed = soak;
    void killing.then(() => (killed = true));
    let next = 0;
    // The short form continues until each part was killed once.
    const lane = async (): Promise<void> => {
      while (next < rounds || !killed) seen.push(await watched(fleet, next++));
    };
    await Promise.all(Array.from({ length: soak ? 24 : 3 }, lane));
    ended.abort();
    const kills = await killing;
    const seconds = (performance.now() - started) / 1000;
    for (const events of seen) checkStream(events);
    await checkStored(fleet, seen);
    const refused = await fleet.refusedEvents();
    const attempts = seen.reduce((sum, events) => sum + attemptsOf(events), 0);
    const left = await fleet.end();
    expect(left).toEqual([]);
    const counted = Object.fromEntries(VICTIMS.map((victim) => [victim, kills.filter((one) => one === victim).length]));
    const run = {
      seed,
      date: new Date().toISOString().slice(0, 10),
      machine: `${availableParallelism()} processors (${cpus()[0]?.model.trim() ?? 'unknown'})`,
      pilots: fleet.pilots,
      experiments: seen.length,
      events: seen.reduce((sum, events) => sum + events.length, 0),
      kills: counted,
      attempts,
      refusedEvents: refused,
      processesLeft: left.length,
      seconds: Math.round(seconds),
    };
    process.stdout.write(`${JSON.stringify(run)}\n`);
    if (RESULT) {
      mkdirSync(dirname(RESULT), { recursive: true });
      writeFileSync(RESULT, `${JSON.stringify(run, null, 2)}\n`);
    }
    figure(
      'kill -9 of pilots, slurmd, slurmctld and the gateway',
      `${seen.length} experiments in ${attempts} attempts, ${kills.length} kills; each ended once, no event lost or twice, no process left`,
    );
  },
);

interface Fleet extends AsyncDisposable {
  slurm: SlurmCluster;
  client: RunnerClient;
  pilots: number;
  /** Process ids of pilots. */
  pilotPids: () => number[];
  killGateway: () => Promise<void>;
  startGateway: () => Promise<void>;
  /** How many events the gateways refused because the lease had ended. A killed gateway counts with its last report. */
  refusedEvents: () => Promise<number>;
  /** Ends everything, and returns the processes that remain. */
  end: () => Promise<string[]>;
}

async function startFleet(pilots: number): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), 'fc-sf-'));
  const home = new Home({ FLASHCORE_ALLOW_ROOT: '1', FLASHCORE_LOG_LEVEL: 'info' });
  await using undo = new AsyncDisposableStack();
  undo.use(home);
  const slurm = undo.use(await startSlurm(join(folder, 'c')));
  Object.assign(home.env, { SLURM_CONF: slurm.conf });
  const [pilotsAt, address] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const file = join(folder, 'fleet.yaml');
  writeFileSync(
    file,
    `
listen: ${pilotsAt}
reach: ${pilotsAt}
bundle: ${ROOT}/node_modules/.bin
scratch: ${folder}/scratch
partitions:
  - { partition: low, device: emulator, min: ${pilots}, max: ${pilots}, idle_seconds: 600 }
`,
  );
  const start = () => home.startGateway(file, address, '--max-queued', '2000');
  let gateway = await start();
  const client = await RunnerClient.connect({ address, timeoutMs: 60_000 });
  let refused = 0;
  const refusedNow = async (): Promise<number> =>
    Number((await client.getHost({}).catch(() => undefined))?.host?.fleet?.refusedEvents ?? 0);
  const pilotPids = (): number[] =>
    processesOf(`pilot --gateway ${pilotsAt}`).map((line) => Number(line.split(' ')[0]));
  let ended = false;
  const end = async (): Promise<string[]> => {
    if (ended) return [];
    ended = true;
    client.close();
    await home[Symbol.asyncDispose]();
    slurm[Symbol.dispose]();
    // If slurmctld was killed before it saved its state, it has forgotten a pilot. Without a gateway that pilot would
    // run for five more minutes. It is not an error if a pilot has already ended by itself.
    for (const pid of pilotPids()) spawnSync('kill', [String(pid)]);
    // Processes that Slurm kills, and those that a killed pilot left, get some seconds to end.
    const left = (): string[] => processesOf(folder);
    await waitFor('processes to end', () => left().length === 0 || undefined, 30_000).catch(() => undefined);
    const still = left();
    for (const line of still) process.kill(Number(line.split(' ')[0]), 'SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    return still;
  };
  undo.move();
  return {
    slurm,
    client,
    pilots,
    pilotPids,
    killGateway: async () => {
      refused += await refusedNow();
      gateway.process.kill('SIGKILL');
      await waitFor('the gateway to end', () => gateway.process.signalCode ?? undefined);
    },
    startGateway: async () => {
      gateway = await start();
    },
    refusedEvents: async () => refused + (await refusedNow()),
    end,
    async [Symbol.asyncDispose]() {
      await end();
    },
  };
}

/** The processes whose command line contains the text, as "pid command". */
const processesOf = (text: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((one) => one?.command.includes(text))
    .map((one) => `${one!.pid} ${one!.command}`);

interface Killing {
  random: Random;
  everyMs: [number, number];
  /** Maximum number of kills. */
  most: number;
  signal: AbortSignal;
}

/** Kills one part after another until the signal. Killed parts other than pilots are started again some time later. */
async function killAround(fleet: Fleet, { random, everyMs, most, signal }: Killing): Promise<Victim[]> {
  const kills: Victim[] = [];
  const victims = [...VICTIMS];
  while (kills.length < most) {
    const pauseMs = integer(random, ...everyMs);
    // Kills every part once before it kills a part for the second time.
    const victim = pick(random, victims);
    victims.splice(victims.indexOf(victim), 1);
    if (victims.length === 0) victims.push(...VICTIMS);
    const downMs = integer(random, 0, 2_000);
    // eslint-disable-next-line flashcore/no-fixed-wait -- kills come at any moment
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return kills;
    if (await strike(fleet, victim, { random, downMs })) kills.push(victim);
  }
  return kills;
}

/** Kills one of these parts, and restarts it if it is not a pilot. Returns whether there was a process to kill. */
async function strike(
  fleet: Fleet,
  victim: Victim,
  { random, downMs }: { random: Random; downMs: number },
): Promise<boolean> {
  if (victim === 'pilot') {
    const pids = fleet.pilotPids();
    if (pids.length === 0) return false;
    process.kill(pick(random, pids), 'SIGKILL');
    return true;
  }
  if (victim === 'gateway') {
    await fleet.killGateway();
    // eslint-disable-next-line flashcore/no-fixed-wait -- the part is down for this long
    await sleep(downMs);
    await fleet.startGateway();
    return true;
  }
  const daemon = victim === 'slurmd' ? pick(random, ['slurmd-gpu1', 'slurmd-gpu2'] as const) : victim;
  fleet.slurm.kill(daemon, 'SIGKILL');
  // eslint-disable-next-line flashcore/no-fixed-wait -- the part is down for this long
  await sleep(downMs);
  fleet.slurm.start(daemon);
  // After a kill before it saved its state, the controller reuses job numbers and drains the nodes of the old jobs.
  fleet.slurm.resume();
  return true;
}

/** Runs one experiment on the smallest shape and watches it across all cuts. */
async function watched({ client }: Fleet, index: number): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  const asked = {
    kernel: { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } },
    settings: { shapes: [{ batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }], seedCount: 1 },
    options: { labels: { experiment: String(index) }, maxQueueSeconds: 7_200 },
  };
  for await (const event of client.start('verify', asked, { giveUpAfterMs: GIVE_UP_MS })) events.push(event);
  return events;
}

const attemptsOf = (events: readonly JobEvent[]): number =>
  events.filter(({ payload }) => payload.case === 'attemptStarted').length;

/**
 * Checks that the stream has no gap and exactly one end, and that the attempt that finished reported each result once.
 */
function checkStream(events: readonly JobEvent[]): void {
  expect(events.map(({ sequence }) => Number(sequence))).toEqual(events.map((_, index) => index + 1));
  const cases = events.map(({ payload }) => payload.case);
  expect(cases.filter((name) => name === 'finished')).toHaveLength(1);
  const end = events.at(-1)!.payload;
  expect(end.case === 'finished' && [Outcome[end.value.outcome], end.value.summary]).toEqual([
    'PASSED',
    expect.any(String) as string,
  ]);
  const last = cases.slice(cases.lastIndexOf('attemptStarted'));
  for (const once of ['buildResult', 'verifyResult']) expect(last.filter((name) => name === once)).toHaveLength(1);
  const numbers = events.flatMap(({ payload }) => (payload.case === 'attemptStarted' ? [payload.value.attempt] : []));
  expect(numbers).toEqual(numbers.map((_, index) => index + 1));
}

/** Checks that the store has all these jobs as ended, with the events that their clients saw. */
async function checkStored({ client }: Fleet, seen: readonly JobEvent[][]): Promise<void> {
  const names = seen.map((events) => events[0]!.job);
  expect(new Set(names).size).toBe(names.length);
  for (const events of seen) {
    const stored: JobEvent[] = [];
    for await (const event of client.watch(events[0]!.job)) stored.push(event);
    expect(stored).toEqual(events);
  }
}
