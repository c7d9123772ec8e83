/**
 * kill -9 of the real daemon while kernels with attacking host code run on the emulator: after the restart everything
 * that clients know of still exists, no process remains, and a good kernel's result is bit-equal.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toJson } from '@bufbuild/protobuf';
import {
  ATTACKS,
  FIRST_LENGTH,
  HOSTILE_MANIFEST,
  chosenAttack,
  collect,
  hostileSource,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { CaseResultSchema, Outcome, type JobEvent, type KernelReference } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect } from 'vitest';
import { Home } from '../support/home.ts';
import { descendants, stillRuns, type ProcessInfo } from '../support/process-tree.ts';
import { campaign, integer, percentile, pick, seededUuid } from './campaign.ts';

const CONTROL = { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } };
const CONTROL_LENGTH = 64;
const LENGTHS = Object.keys(ATTACKS).map((_, index) => FIRST_LENGTH + index);
const PROCESSES_GONE_MS = 5_000;
/** How soon after a restart the runner must have ended the jobs that were running before. */
const RESOLVED_WITHIN_MS = 5_000;

interface Told {
  /** Length of the log flood; undefined for the good kernel. */
  length: number | undefined;
  requestId: string;
  seen: JobEvent[];
}

campaign(
  'kill -9 with hostile kernels among the jobs',
  { promise: 'boundary', rounds: { ci: 2, soak: 300 } },
  async ({ random, rounds, soak, figure }) => {
    await using home = new Home();
    const hostile = await uploaded(home);
    const wanted = await control(home);
    const restartsMs: number[] = [];
    let kept = 0;
    let attacks = 0;
    for (let round = 0; round < rounds; round += 1) {
      const told = Array.from({ length: integer(random, 2, 4) }, (): Told => ({
        length: integer(random, 0, 2) === 0 ? undefined : pick(random, LENGTHS),
        requestId: seededUuid(random),
        seen: [],
      }));
      await loadUntilKilled(home, { told, hostile, afterMs: integer(random, 20, 900) });
      attacks += told.filter(({ length, seen }) => length !== undefined && seen.length > 0).length;
      const started = performance.now();
      const named = await checkTold(home, told);
      restartsMs.push(performance.now() - started);
      kept += named;
      if (round % 10 === 9 || round === rounds - 1) expect(await control(home), `after round ${round}`).toEqual(wanted);
    }
    // Only the soak has the machine to itself. kill.test.ts bounds restarts on a busy machine too.
    if (soak) expect(percentile(restartsMs, 0.5)).toBeLessThan(RESOLVED_WITHIN_MS);
    figure(
      'kill -9 with hostile kernels among the jobs',
      `${rounds} kills, ${attacks} of ${kept} named jobs attack in ${Object.keys(ATTACKS).length} ways; none lost, one end each, none passed, no process left; the control result bit-equal; restart and check p50 ${percentile(restartsMs, 0.5).toFixed(0)} ms, p99 ${percentile(restartsMs, 0.99).toFixed(0)} ms`,
    );
  },
);

/** Uploads the kernel that contains all attacks, and builds that kernel and the good kernel once. */
async function uploaded(home: Home): Promise<KernelReference> {
  const folder = join(home.path, 'hostile');
  mkdirSync(folder);
  writeFileSync(join(folder, 'kernel.yaml'), HOSTILE_MANIFEST);
  writeFileSync(join(folder, 'hostile.cu'), hostileSource('', chosenAttack()));
  const { address, process: daemon } = await home.startDaemon();
  using client = await RunnerClient.connect({ address });
  const reference = await client.uploadFolder(folder);
  for (const kernel of [reference, CONTROL]) await collect(client.start('build', { kernel }));
  await ended(daemon.pid!, () => daemon.kill('SIGTERM'));
  return reference;
}

/** The good kernel's result without its times. */
async function control(home: Home): Promise<unknown> {
  const { address, process: daemon } = await home.startDaemon();
  using client = await RunnerClient.connect({ address });
  const request = { kernel: CONTROL, settings: { shapes: [parseShape('1x1x64x64')], seeds: ['c0ffee'] } };
  const end = (await collect(client.start('verify', request))).at(-1)!.payload;
  await ended(daemon.pid!, () => daemon.kill('SIGTERM'));
  if (end.case !== 'finished') throw new Error('the stream has no end');
  const cases = end.value.result!.variants.flatMap((variant) => variant.verify?.cases ?? []);
  return [
    Outcome[end.value.outcome],
    cases.map((one) => ({ ...(toJson(CaseResultSchema, one) as object), seconds: 0 })),
  ];
}

interface Load {
  told: Told[];
  hostile: KernelReference;
  afterMs: number;
}

async function loadUntilKilled(home: Home, { told, hostile, afterMs }: Load): Promise<void> {
  const { address, process: daemon } = await home.startDaemon();
  const client = await RunnerClient.connect({ address });
  const abort = new AbortController();
  const watching = told.map(async ({ length, requestId, seen }) => {
    const request = requestOf({ length, requestId, hostile });
    try {
      for await (const event of client.start('verify', request, { signal: abort.signal })) seen.push(event);
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    }
  });
  // eslint-disable-next-line flashcore/no-fixed-wait -- the kill comes at any moment
  await Promise.race([Promise.all(watching), new Promise((resolve) => setTimeout(resolve, afterMs))]);
  abort.abort();
  await ended(daemon.pid!, () => daemon.kill('SIGKILL'));
  await Promise.all(watching);
  client.close();
}

interface Wanted extends Pick<Told, 'length' | 'requestId'> {
  hostile: KernelReference;
}

const requestOf = ({ length, requestId, hostile }: Wanted) => ({
  kernel: length === undefined ? CONTROL : hostile,
  settings: { shapes: [parseShape(`1x1x${length ?? CONTROL_LENGTH}x64`)], seeds: ['1'] },
  options: { requestId },
});

/** Ends a daemon, and waits until it and every process that it started are gone. */
async function ended(daemon: number, end: () => unknown): Promise<void> {
  const all: ProcessInfo[] = descendants(daemon);
  end();
  await expect
    .poll(() => all.filter(stillRuns).map(({ command }) => command), { timeout: PROCESSES_GONE_MS })
    .toEqual([]);
}

/**
 * Checks after a restart that every job whose name a client learned has all its events and ended once, and that no
 * attack passed. Returns the number of these jobs.
 */
async function checkTold(home: Home, told: readonly Told[]): Promise<number> {
  const { address, process: daemon } = await home.startDaemon();
  using client = await RunnerClient.connect({ address });
  let named = 0;
  for (const { seen, length } of told) {
    const name = seen[0]?.job;
    if (name === undefined) continue;
    named += 1;
    const log = await collect(client.watch(name));
    expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
    expect(log.slice(0, seen.length)).toEqual(seen);
    const ends = log.flatMap(({ payload }) => (payload.case === 'finished' ? [payload.value] : []));
    expect(ends).toHaveLength(1);
    if (length !== undefined) expect(Outcome[ends[0]!.outcome], `length ${length}`).not.toBe('PASSED');
  }
  await ended(daemon.pid!, () => daemon.kill('SIGTERM'));
  return named;
}
