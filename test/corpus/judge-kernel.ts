/** Judges one kernel through the public API, with an experiment whose result could be accepted. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import {
  FindingKind,
  FlashcoreError,
  Outcome,
  TimingMode,
  type JobFinished,
  type KernelReference,
  type Shape,
} from '@flashcore/shared/contract';
import type { RpcRequestInit, RunnerClient } from '@flashcore/shared/client';
import { parseShape } from '@flashcore/shared/kernels';
import { repositoryRoot } from '../support/repository-root.ts';
import type { CorpusKernel } from './corpus.ts';

/** A runner's judgement of a kernel. */
export interface Judgement {
  outcome: string;
  /** Why the runner could not judge the kernel, such as a compile error. It is neither caught nor cleared then. */
  error?: string;
  /** Kind and text of each finding. Empty if the kernel passes. */
  findings: { kind: string; message: string }[];
  /** Results of the checks on timed outputs. */
  checks: string[];
  coldUs?: number;
  hotUs?: number;
  seconds: number;
}

/** A plan whose only gate is correctness. The result could be accepted, so every rule of ranked runs applies. */
const GATES = `default: corpus
gates:
  - { id: correctness, title: Correct, metric: parity_cases_passed, op: "==", target: 1, unit: share, source: fp64 reference, why: "a wrong kernel has no speed" }
plans:
  corpus: { title: The corpus, about: "correctness", from: "kernels/corpus/corpus.yaml", metrics: none, champion: false, fallback: none, gates: { correctness: hard } }
`;

/** The shape on the emulator, where a kernel takes seconds. On a GPU the experiment's default shapes apply. */
const SMALL: readonly Shape[] = [parseShape('1x2x64x64')];
const SMALL_PROTOCOL = { minSamples: 20, maxSamples: 40, maxSeconds: 0.4 };
const GPU_PROTOCOL = { maxSeconds: 1 };

export async function judgeKernel(client: RunnerClient, kernel: CorpusKernel): Promise<Judgement> {
  const { simulated } = client.host.devices[0]!;
  // Problems other than attention define their own small shapes.
  const small = simulated && isAttention(kernel);
  return judgementOf(
    await finished(client, 'runExperiment', {
      kernel: await referenceOf(client, kernel),
      variant: variantOf(kernel),
      gatesYaml: GATES,
      noFallback: true,
      noChampion: true,
      verify: { ...(small && { shapes: [...SMALL] }), ...(simulated && { seedCount: 2 }) },
      benchmark: { ...(small && { shapes: [...SMALL] }), protocol: simulated ? SMALL_PROTOCOL : GPU_PROTOCOL },
      ...(small && { profile: { shape: SMALL[0]! } }),
    }),
  );
}

/** Compiles the kernel without running it. */
export async function buildKernel(client: RunnerClient, kernel: CorpusKernel): Promise<Judgement> {
  return judgementOf(
    await finished(client, 'build', { kernel: await referenceOf(client, kernel), variant: variantOf(kernel) }),
  );
}

/** The most seeds that one request may have. */
const MAX_SEEDS = 100;

/** Verifies many drawn inputs on a tiny shape, split into jobs of at most MAX_SEEDS seeds. */
export async function verifyKernel(client: RunnerClient, kernel: CorpusKernel, seeds: number): Promise<Judgement> {
  try {
    return await verifyAt(parseShape('1x1x17x64'), { client, kernel, seeds });
  } catch (error) {
    if (!(error instanceof FlashcoreError) || error.reason !== 'SHAPE_UNSUPPORTED') throw error;
    // A shape that also suits kernels that support only whole tiles.
    return verifyAt(parseShape('1x1x32x64'), { client, kernel, seeds });
  }
}

interface Verifying {
  client: RunnerClient;
  kernel: CorpusKernel;
  seeds: number;
}

async function verifyAt(shape: Shape, { client, kernel, seeds }: Verifying): Promise<Judgement> {
  const reference = await referenceOf(client, kernel);
  let all: Judgement | undefined;
  for (let left = seeds; left > 0 && (all === undefined || all.findings.length === 0); left -= MAX_SEEDS) {
    const next = judgementOf(
      await finished(client, 'verify', {
        kernel: reference,
        variant: variantOf(kernel),
        settings: { shapes: [shape], seedCount: Math.min(left, MAX_SEEDS) },
      }),
    );
    all = all ? { ...next, seconds: all.seconds + next.seconds } : next;
  }
  return all!;
}

const variantOf = ({ parameters }: CorpusKernel) => ({
  parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)])),
});

function isAttention({ kernel }: CorpusKernel): boolean {
  if (!kernel.includes('/')) return true;
  const { problem } = parse(readFileSync(join(folderOf(kernel), 'kernel.yaml'), 'utf8')) as { problem?: string };
  return problem === undefined;
}

const folderOf = (kernel: string): string => resolve(repositoryRoot(), kernel);

type Reference = KernelReference | { source: { case: 'kernelId'; value: string } };

async function referenceOf(client: RunnerClient, { kernel }: CorpusKernel): Promise<Reference> {
  if (!kernel.includes('/')) return { source: { case: 'kernelId', value: kernel } };
  const folder = folderOf(kernel);
  if (!existsSync(folder)) throw new Error(`A kernel of the corpus must be an id or a folder, got ${kernel}`);
  return client.uploadFolder(folder);
}

interface Finished {
  job: JobFinished;
  seconds: number;
}

async function finished<Method extends 'build' | 'runExperiment' | 'verify'>(
  client: RunnerClient,
  method: Method,
  request: RpcRequestInit<Method>,
): Promise<Finished> {
  const started = performance.now();
  for await (const { payload } of client.start(method, request))
    if (payload.case === 'finished') return { job: payload.value, seconds: (performance.now() - started) / 1000 };
  throw new Error('The stream of a job must have an end, and has none');
}

function judgementOf({ job, seconds }: Finished): Judgement {
  const variants = job.result?.variants ?? [];
  const benchmarks = variants.flatMap((variant) => variant.benchmarks);
  const us = (mode: TimingMode): number | undefined =>
    benchmarks.find((result) => result.mode === mode)?.latency?.p50Us;
  const [coldUs, hotUs] = [us(TimingMode.COLD), us(TimingMode.HOT)];
  const findings = variants.flatMap((variant) => variant.findings);
  const notCompiled = findings.find(({ kind }) => kind === FindingKind.COMPILE_FAILED);
  const error =
    job.outcome === Outcome.ERROR ? (job.error?.message ?? job.summary) : notCompiled && notCompiled.message;
  return {
    outcome: Outcome[job.outcome],
    ...(error !== undefined && { error }),
    findings: findings.map(({ kind, message }) => ({ kind: FindingKind[kind], message })),
    checks: benchmarks.map(({ outputCheck }) => outputCheck),
    ...(coldUs !== undefined && { coldUs }),
    ...(hotUs !== undefined && { hotUs }),
    seconds: Math.round(seconds * 10) / 10,
  };
}
