import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toJson } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  KernelReferenceSchema,
  VariantSchema,
  VerifySettingsSchema,
  BenchmarkSettingsSchema,
  JobState,
  type KernelReference,
} from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import type { RunnerClient } from '@flashcore/shared/client';
import type { Connection } from '../connection/connect.ts';
import { evaluationOf, refusedEvaluation, type Evaluation } from './evaluation.ts';
import { isDecided, runToResult, uuidOf } from './experiment.ts';
import { experimentRequest, type ExperimentSettings, type Side } from './experiment-request.ts';
import {
  readSource,
  sourceOfFolder,
  withTranslationUnit,
  writeSource,
  type SourceFiles,
  type SourcePlace,
} from './kernel-source.ts';

/** A kernel as requests name it, and where its sources are. */
export interface BaseKernel {
  readonly place: SourcePlace;
  readonly kernel: KernelReference;
}

/** What is to be judged, and how. */
export interface EvaluateOptions {
  /** A kernel folder, or a .cu that takes the place of the base's. */
  readonly candidate: { readonly kind: 'folder' | 'file'; readonly path: string };
  /** The kernel that the candidate was made from, and is compared with. */
  readonly base?: BaseKernel | undefined;
  readonly variant: Side['variant'];
  readonly settings: ExperimentSettings;
  /** Measure again what was measured before. */
  readonly repeat: boolean;
  readonly signal: AbortSignal;
}

/** Faults of a candidate's own folder, manifest or launches: a judgement about it, no error of the caller's. */
const CANDIDATES_FAULT: ReadonlySet<FlashcoreError['reason']> = new Set<FlashcoreError['reason']>([
  'INVALID_MANIFEST',
  'INVALID_VARIANT',
  'INVALID_REQUEST',
  'SHAPE_UNSUPPORTED',
  'ARCH_UNSUPPORTED',
]);

/** Whether an error says that the candidate is wrong, rather than that it could not be judged. */
export const isCandidatesFault = (error: unknown): error is FlashcoreError =>
  error instanceof FlashcoreError && CANDIDATES_FAULT.has(error.reason);

const LABEL = 'evaluation';
/** Of an evaluation that the runner could not carry out, so many are looked at for the next request_id. */
const MAX_ATTEMPTS = 1000;

/**
 * Judges a candidate by an experiment on the runner, or gives what an experiment on the same content found out before.
 * Errors: what keeps it from being judged: RUNNER_UNREACHABLE, QUEUE_FULL, JobUndecided …
 */
export async function evaluateCandidate(connection: Connection, options: EvaluateOptions): Promise<Evaluation> {
  const { client } = connection;
  const { base, variant, settings, repeat, signal } = options;
  const baseSource = base && (await readSource(base.place, client));
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-evaluate-'));
  try {
    const champion = base && { kernel: base.kernel, variant };
    const candidate = await asCandidate(async () => {
      writeSource(folder, await candidateSource(options, baseSource));
      return { kernel: await client.uploadFolder(folder), variant };
    });
    if ('version' in candidate) return candidate;
    const key = contentKey(connection, { candidate, champion, settings });
    const attempts = await earlierAttempts(connection, { key, repeat, plan: settings.plan });
    if (attempts.done) return attempts.done;
    const request = experimentRequest(settings, {
      candidate,
      champion,
      requestId: repeat ? crypto.randomUUID() : uuidOf(`${key} ${attempts.count}`),
      labels: { [LABEL]: key },
    });
    const ended = await asCandidate(() => runToResult(connection, request, { signal }));
    return 'version' in ended ? ended : evaluationOf({ ...ended, plan: settings.plan });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function candidateSource({ candidate }: EvaluateOptions, base: SourceFiles | undefined): Promise<SourceFiles> {
  if (candidate.kind === 'folder') return sourceOfFolder(candidate.path);
  return withTranslationUnit(base!, candidate.path);
}

/** What the work gives, or the judgement that the candidate's own fault makes of it. */
async function asCandidate<Value extends object>(work: () => Promise<Value>): Promise<Value | Evaluation> {
  try {
    return await work();
  } catch (error) {
    if (isCandidatesFault(error)) return refusedEvaluation(error.message);
    throw error;
  }
}

interface Content {
  readonly candidate: Side;
  readonly champion: Side | undefined;
  readonly settings: ExperimentSettings;
}

/**
 * Digest of everything that the result depends on: sources, variants, settings, the device, the runner's code, and what
 * it judges by.
 */
export function contentKey(
  { client: { host, judgingDigest } }: { readonly client: Pick<RunnerClient, 'host' | 'judgingDigest'> },
  { candidate, champion, settings }: Content,
): string {
  const device = host.devices.find(({ deviceId }) => deviceId === settings.deviceId) ?? host.devices[0];
  const side = ({ kernel, variant }: Side) => [toJson(KernelReferenceSchema, kernel), toJson(VariantSchema, variant)];
  return sha256Of(
    JSON.stringify([
      side(candidate),
      champion ? side(champion) : null,
      toJson(VerifySettingsSchema, settings.verify),
      toJson(BenchmarkSettingsSchema, settings.benchmark),
      settings.plan,
      [
        host.buildId,
        judgingDigest,
        host.hostName,
        settings.deviceId,
        device?.name,
        device?.driverVersion,
        device?.kernelDriverVersion,
      ],
    ]),
  );
}

/** What a candidate is judged as, and whether again. */
interface Judgement {
  key: string;
  repeat: boolean;
  plan: string;
}

/**
 * What the runner knows of this content: its judgement, or how many attempts came to none. One that runs still has the
 * next number, so that the request joins it.
 */
async function earlierAttempts(
  { client }: Connection,
  { key, repeat, plan }: Judgement,
): Promise<{ done?: Evaluation; count: number }> {
  if (repeat) return { count: 0 };
  const { jobs } = await client.listJobs({ labels: { [LABEL]: key }, pageSize: MAX_ATTEMPTS });
  const judged = jobs.find((job) => job.state === JobState.ENDED && isDecided(job));
  if (!judged) return { count: jobs.filter(({ state }) => state === JobState.ENDED).length };
  const { result } = await client.getJob({ name: judged.name });
  return { done: evaluationOf({ job: judged, result, plan }), count: jobs.length };
}
