/**
 * One job's crash, hang or sticky error never changes another's result: faulty kernels alternate with a control job
 * whose result stays bit-equal.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toJson } from '@bufbuild/protobuf';
import { RunnerClient } from '@flashcore/shared/client';
import {
  Outcome,
  CaseResultSchema,
  type CaseResult,
  type JobFinished,
  type KernelReference,
} from '@flashcore/shared/contract';
import { killIfThere } from '@flashcore/shared/files';
import { attentionCase } from '@flashcore/shared/kernels';
import { expect } from 'vitest';
import { Home } from '../support/home.ts';
import { descendants } from '../support/process-tree.ts';
import { campaign, pick } from './campaign.ts';

const SHAPES = [{ batch: 1, heads: 2, sequenceLength: 65, headDim: 64, causal: true }];
const QUICK = [
  'out_of_bounds',
  'misaligned_address',
  'divergent_barrier',
  'nan_output',
  'unwritten_output',
  'missing_syncthreads',
  'syntax_error',
  'missing_entry',
];
// A hang is found only after the launch limit of 8 s.
const SLOW = ['endless_loop'];

const SIGNATURE = '(const half* Q, const half* K, const half* V, half* O, int seq_len, float scale, int causal)';
/** Kernels that exist only in this test. On the emulator a kernel's source is also a host program. */
const WRITTEN: Record<string, { workspace: string; source: string }> = {
  // Requests all the memory that Q, K, V and O leave, so the planner does not refuse it. The guard bytes then exceed
  // the memory.
  'all memory': {
    workspace: `workspace: { everything: "MEMORY - ${SHAPES.reduce((bytes, shape) => bytes + attentionCase(shape, 'fp16').bytes, 0)}" }\n`,
    source: `#include <cuda_fp16.h>\nextern "C" __global__ void written${SIGNATURE} {}\n`,
  },
  children: {
    workspace: '',
    source: `#include <cuda_fp16.h>
#ifdef FLASHCORE_EMULATOR
#include <unistd.h>
static void leave_children() { for (int child = 0; child < 50; ++child) if (fork() == 0) { setsid(); execl("/bin/sleep", "sleep", "73517351", (char*)0); } }
#endif
extern "C" __global__ void written${SIGNATURE} {
#ifdef FLASHCORE_EMULATOR
  if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) leave_children();
#endif
  O[(size_t)1 << 40] = Q[0];
}
`,
  },
};

function writeKernel(parent: string, { way, memoryBytes }: { way: string; memoryBytes: bigint }): string {
  const folder = join(parent, way.replace(' ', '_'));
  mkdirSync(folder);
  const { workspace, source } = WRITTEN[way]!;
  writeFileSync(join(folder, 'written.cu'), source);
  writeFileSync(
    join(folder, 'kernel.yaml'),
    `id: written
title: Written by a test
lesson: none
source: written.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
${workspace.replace('MEMORY', String(memoryBytes))}launches: [{ entry: written, grid: ["ceil(S / 64)", "B * H", 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }]
`,
  );
  return folder;
}

campaign(
  'faulty kernels alternate with a control job',
  { promise: 'isolation', rounds: { ci: 4, soak: 30 } },
  async ({ random, rounds, soak, figure }) => {
    await using home = new Home();
    const { address, process: daemon } = await home.startDaemon();
    using client = await RunnerClient.connect({ address });
    const wanted = await control(client);
    // Processes that killed runs of this test have left.
    const before = new Set(sleeping().map(({ pid }) => pid));
    const outcomes = new Map<string, number>();
    const ways = [...QUICK, ...Object.keys(WRITTEN), ...(soak ? SLOW : []), 'kill the worker'];
    const { memoryBytes } = client.host.devices[0]!;
    const written = new Map(
      await Promise.all(
        Object.keys(WRITTEN).map(
          async (way) => [way, await client.uploadFolder(writeKernel(home.path, { way, memoryBytes }))] as const,
        ),
      ),
    );
    for (let round = 0; round < rounds; round += 1) {
      // The first three rounds test the worst faults.
      const way = ['kill the worker', 'children', 'all memory'][round] ?? pick(random, ways);
      const outcome =
        way === 'kill the worker'
          ? await killWorker(client, daemon.pid!)
          : await verify(client, written.get(way) ?? named(way));
      expect(outcome.outcome, way).not.toBe(Outcome.PASSED);
      if (way === 'all memory') expect(Outcome[outcome.outcome]).toBe('OUT_OF_MEMORY');
      // The job ends when the runner knows the fault. The job's processes end a moment later, with or without a
      // sandbox.
      const left = (): unknown[] => sleeping().filter(({ pid }) => !before.has(pid));
      await expect.poll(left, { timeout: 2_000, message: `processes that ${way} left` }).toEqual([]);
      outcomes.set(way, (outcomes.get(way) ?? 0) + 1);
      expect(await control(client), `after ${way}`).toEqual(wanted);
    }
    figure(
      'control job between faulty kernels',
      `${rounds} faults (${[...outcomes].map(([way, count]) => `${count} ${way}`).join(', ')}); every control result bit-equal`,
    );
  },
);

/** The processes that the kernel with children starts. */
const sleeping = () => descendants(1).filter(({ command }) => command === 'sleep 73517351');

const named = (kernelId: string) => ({ source: { case: 'kernelId' as const, value: kernelId } });

async function verify(client: RunnerClient, kernel: KernelReference | ReturnType<typeof named>): Promise<JobFinished> {
  for await (const { payload } of client.start('verify', {
    kernel,
    settings: { shapes: SHAPES, seeds: ['c0ffee', '5eed'] },
  })) {
    if (payload.case === 'finished') return payload.value;
  }
  throw new Error('the stream has no end');
}

/** The control job's result without its times. */
async function control(client: RunnerClient): Promise<unknown> {
  const { outcome, result } = await verify(client, named('fa_v2_wmma'));
  expect(outcome).toBe(Outcome.PASSED);
  const cases = result!.variants.flatMap((variant): CaseResult[] => variant.verify?.cases ?? []);
  expect(cases).toHaveLength(SHAPES.length);
  return cases.map((one) => ({ ...(toJson(CaseResultSchema, one) as object), seconds: 0 }));
}

/** Kills the worker, as the OS's out-of-memory killer or an administrator would. */
async function killWorker(client: RunnerClient, daemon: number): Promise<JobFinished> {
  const request = {
    kernel: { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } },
    settings: { shapes: [{ batch: 2, heads: 8, sequenceLength: 512, headDim: 64 }], seeds: ['1'] },
  };
  let end: JobFinished | undefined;
  let killed = false;
  for await (const { payload } of client.start('verify', request)) {
    if (payload.case === 'verifyProgress' && !killed) {
      killed = true;
      for (const { pid, command } of descendants(daemon)) if (/worker\.js$/.test(command)) killIfThere(pid);
    }
    if (payload.case === 'finished') end = payload.value;
  }
  expect(killed).toBe(true);
  return end!;
}
