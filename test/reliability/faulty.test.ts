/** One job's crash, hang or sticky error never changes another's result: faulty kernels alternate with a control job whose result stays bit-equal. */
import { toJson } from '@bufbuild/protobuf';
import { CaseResultSchema, Outcome, RunnerClient, type CaseResult, type JobFinished } from '@flashcore/shared';
import { expect } from 'vitest';
import { Home } from '../support/home.ts';
import { descendants } from '../support/process-tree.ts';
import { campaign, pick } from './campaign.ts';

const SHAPES = [{ batch: 1, heads: 2, sequenceLength: 65, headDim: 64, causal: true }];
const QUICK = ['out_of_bounds', 'misaligned_address', 'divergent_barrier', 'nan_output', 'unwritten_output', 'missing_syncthreads', 'syntax_error', 'missing_entry'];
// A hang is found after the launch's limit of 8 s.
const SLOW = ['endless_loop'];

campaign('faulty kernels alternate with a control job', { promise: 'one job\'s crash never changes another\'s result', rounds: { ci: 4, soak: 60 }, timeoutMs: 120_000 }, async ({ random, rounds, soak, figure }) => {
  await using home = new Home();
  const { address, process: daemon } = await home.startDaemon();
  using client = await RunnerClient.connect({ address });
  const wanted = await control(client);
  const outcomes = new Map<string, number>();
  const ways = [...QUICK, ...(soak ? SLOW : []), 'kill the worker'];
  for (let round = 0; round < rounds; round += 1) {
    const way = round === 0 ? 'kill the worker' : pick(random, ways);
    const outcome = way === 'kill the worker' ? await killWorker(client, daemon.pid!) : await verify(client, way);
    expect(outcome.outcome, way).not.toBe(Outcome.PASSED);
    outcomes.set(way, (outcomes.get(way) ?? 0) + 1);
    expect(await control(client), `after ${way}`).toEqual(wanted);
  }
  figure('control job between faulty kernels', `${rounds} faults (${[...outcomes].map(([way, count]) => `${count} ${way}`).join(', ')}); every control result bit-equal`);
});

async function verify(client: RunnerClient, kernelId: string): Promise<JobFinished> {
  for await (const { payload } of client.start('verify', { kernel: { source: { case: 'kernelId', value: kernelId } }, settings: { shapes: SHAPES, seeds: ['c0ffee', '5eed'] } })) {
    if (payload.case === 'finished') return payload.value;
  }
  throw new Error('the stream has no end');
}

/** The control's figures, all but its times. */
async function control(client: RunnerClient): Promise<unknown> {
  const { outcome, result } = await verify(client, 'fa_v2_wmma');
  expect(outcome).toBe(Outcome.PASSED);
  const cases = result!.variants.flatMap((variant): CaseResult[] => variant.verify?.cases ?? []);
  expect(cases).toHaveLength(SHAPES.length);
  return cases.map((one) => ({ ...(toJson(CaseResultSchema, one) as object), seconds: 0 }));
}

/** What the kernel's out-of-memory killer, or an administrator, does. */
async function killWorker(client: RunnerClient, daemon: number): Promise<JobFinished> {
  const request = { kernel: { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } }, settings: { shapes: [{ batch: 2, heads: 8, sequenceLength: 512, headDim: 64 }], seeds: ['1'] } };
  let end: JobFinished | undefined;
  let killed = false;
  for await (const { payload } of client.start('verify', request)) {
    if (payload.case === 'verifyProgress' && !killed) {
      killed = true;
      for (const { pid, command } of descendants(daemon)) if (/worker\.js$/.test(command)) process.kill(pid, 'SIGKILL');
    }
    if (payload.case === 'finished') end = payload.value;
  }
  expect(killed).toBe(true);
  return end!;
}
