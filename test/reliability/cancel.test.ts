/**
 * CancelJob at random moments of every phase: within two seconds no process of the job is left, and the device serves
 * the next job.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, Phase, type JobEvent, type KernelReference } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { descendants, readProcess, stillRuns, type ProcessInfo } from '../support/process-tree.ts';
import { campaign, integer, percentile } from './campaign.ts';

const GONE_WITHIN_MS = 2_000;
const IDLE_WORKER = /worker\.js$/;
/** A small shape, so that the benchmark starts soon. It still takes long enough to be cancelled. */
const SHAPES = [{ batch: 1, heads: 4, sequenceLength: 128, headDim: 64 }];
const SMALL = { verify: { shapes: SHAPES, seedCount: 40 }, benchmark: { shapes: SHAPES, protocol: { maxSeconds: 5 } } };
/** When to cancel: a random delay after the job has reported that it reached this point. */
const AIMS: { name: string; fresh?: true; reached: (event: JobEvent) => boolean; mostMs: number }[] = [
  { name: 'queue', fresh: true, reached: ({ payload }) => payload.case === 'created', mostMs: 20 },
  {
    name: 'build',
    fresh: true,
    reached: ({ payload }) => payload.case === 'phaseStarted' && payload.value.phase === Phase.BUILD,
    mostMs: 900,
  },
  {
    name: 'verify',
    reached: ({ payload }) => payload.case === 'phaseStarted' && payload.value.phase === Phase.VERIFY,
    mostMs: 900,
  },
  {
    name: 'benchmark',
    reached: ({ payload }) => payload.case === 'phaseStarted' && payload.value.phase === Phase.BENCHMARK,
    mostMs: 600,
  },
];

campaign(
  'cancel at random moments of each phase',
  { promise: 'cancel', rounds: { ci: 4, soak: 100 } },
  async ({ random, rounds, figure }) => {
    await using home = new Home();
    const { address, process: daemon } = await home.startDaemon();
    using client = await RunnerClient.connect({ address });
    const goneMs: number[] = [];
    let built: KernelReference | undefined;
    let killed = 0;
    let late = 0;
    for (let round = 0; round < rounds; round += 1) {
      const aim = AIMS[round % AIMS.length]!;
      // A kernel whose source is new makes the compilers run. Other aims use the cached build, because the job then
      // reaches them sooner.
      const kernel =
        aim.fresh || round < AIMS.length ? await freshKernel(home, client, `${round} ${random.uniform()}`) : built!;
      if (!aim.fresh) built = kernel;
      const cancelled = await cancelAt(client, kernel, {
        aim,
        delayMs: integer(random, 0, aim.mostMs),
        daemon: daemon.pid!,
      });
      // On a fast machine the job may have ended just before CancelJob.
      expect([Outcome.CANCELLED, Outcome.PASSED, Outcome.FAILED], aim.name).toContain(cancelled.outcome);
      goneMs.push(cancelled.goneMs);
      killed += cancelled.killed.length;
      if (cancelled.outcome !== Outcome.CANCELLED) late += 1;
    }
    const control = await outcomeOf(
      client.start('verify', {
        kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
        settings: { shapes: [{ batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }], seedCount: 1 },
      }),
    );
    expect(late).toBeLessThan(rounds);
    expect(control).toBe(Outcome.PASSED);
    expect(Math.max(...goneMs)).toBeLessThan(GONE_WITHIN_MS);
    figure(
      'cancels at random moments',
      `${rounds} cancels (${late} too late); ${killed} processes killed, none left, p50 ${percentile(goneMs, 0.5).toFixed(0)} ms, most ${Math.max(...goneMs).toFixed(0)} ms after CancelJob was called`,
    );
  },
);

async function freshKernel(home: Home, client: RunnerClient, mark: string): Promise<KernelReference> {
  const folder = join(home.path, 'fresh');
  cpSync(join(ROOT, 'kernels/fa_v1_baseline'), folder, { recursive: true });
  writeFileSync(
    join(folder, 'fa_v1_baseline.cu'),
    `// ${mark}\n${readFileSync(join(ROOT, 'kernels/fa_v1_baseline/fa_v1_baseline.cu'), 'utf8')}`,
  );
  return client.uploadFolder(folder);
}

interface Cancelled {
  outcome: Outcome;
  /** The job's processes that were running when it was cancelled. */
  killed: ProcessInfo[];
  goneMs: number;
}

interface Cancelling {
  aim: (typeof AIMS)[number];
  /** Time from reaching the aim to CancelJob. */
  delayMs: number;
  /** The runner's process. */
  daemon: number;
}

async function cancelAt(
  client: RunnerClient,
  kernel: KernelReference,
  { aim, delayMs, daemon }: Cancelling,
): Promise<Cancelled> {
  let before: ProcessInfo[] = [];
  let cancelledAt = 0;
  let cancelling: Promise<unknown> | undefined;
  let outcome = Outcome.UNSPECIFIED;
  for await (const event of client.start('runExperiment', { kernel, ...SMALL })) {
    if (!cancelling && aim.reached(event)) {
      // eslint-disable-next-line flashcore/no-fixed-wait -- at any moment after the aim
      cancelling = sleep(delayMs).then(() => {
        before = descendants(daemon);
        cancelledAt = performance.now();
        return client.cancelJob({ name: event.job });
      });
    }
    if (event.payload.case === 'finished') outcome = event.payload.value.outcome;
  }
  await cancelling;
  for (;;) {
    const left = [...before.filter(stillRuns), ...descendants(daemon)];
    const busy = await busyOf(left);
    if (busy.length === 0)
      return { outcome, killed: before.filter((one) => !stillRuns(one)), goneMs: performance.now() - cancelledAt };
    if (performance.now() - cancelledAt > GONE_WITHIN_MS)
      throw new Error(
        `${aim.name} + ${delayMs} ms: still there after ${GONE_WITHIN_MS} ms: ${busy.map(({ pid, command }) => `${pid} ${command}`).join('; ')}`,
      );
    // eslint-disable-next-line flashcore/no-fixed-wait -- between two checks of all processes
    await sleep(10);
  }
}

/**
 * The processes that still work for the job. A worker that waits for its next request belongs to the device and may
 * stay. A worker that computes, and every other process, belongs to the job.
 */
async function busyOf(processes: ProcessInfo[]): Promise<ProcessInfo[]> {
  const others = processes.filter(({ command }) => !IDLE_WORKER.test(command));
  if (others.length > 0 || processes.length === 0) return others;
  const now = processes.map(({ pid }) => readProcess(pid));
  // eslint-disable-next-line flashcore/no-fixed-wait -- measures what a process computes meanwhile
  await sleep(100);
  return now
    .filter((one) => one !== undefined)
    .filter((one) => (readProcess(one.pid)?.cpuTicks ?? 0) - one.cpuTicks > 2);
}

async function outcomeOf(stream: AsyncIterable<JobEvent>): Promise<Outcome> {
  let outcome = Outcome.UNSPECIFIED;
  for await (const { payload } of stream) if (payload.case === 'finished') outcome = payload.value.outcome;
  return outcome;
}
