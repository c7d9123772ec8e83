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

/** A kernel's reference in requests, and the place of its sources. */
interface BaseKernel {
  readonly place: SourcePlace;
  readonly kernel: KernelReference;
}

/** A candidate, and how to judge it. */
interface EvaluateOptions {
  /** A kernel folder, or a .cu file that replaces the base's translation unit. */
  readonly candidate: { readonly kind: 'folder' | 'file'; readonly path: string };
  /** The kernel that the candidate was made from and is compared with. */
  readonly base?: BaseKernel | undefined;
  readonly variant: Side['variant'];
  readonly settings: ExperimentSettings;
  /** True to measure again even if there is an earlier result. */
  readonly repeat: boolean;
  readonly signal: AbortSignal;
}

/**
 * Reasons of errors in a candidate's own folder, manifest or launches. Such an error is a judgement on the candidate
 * rather than a mistake of the caller.
 */
const CANDIDATES_FAULT: ReadonlySet<FlashcoreError['reason']> = new Set<FlashcoreError['reason']>([
  'INVALID_MANIFEST',
  'INVALID_VARIANT',
  'INVALID_REQUEST',
  'SHAPE_UNSUPPORTED',
  'ARCH_UNSUPPORTED',
]);

/** True if an error means that the candidate is wrong, rather than that it could not be judged. */
export const isCandidatesFault = (error: unknown): error is FlashcoreError =>
  error instanceof FlashcoreError && CANDIDATES_FAULT.has(error.reason);

const LABEL = 'evaluation';
/** Limit on the earlier attempts that are fetched to choose the next request_id. */
const MAX_ATTEMPTS = 1000;

/**
 * Judges a candidate by an experiment on the runner, or returns the result of an earlier experiment on the same
 * content. Errors: reasons why the candidate cannot be judged: RUNNER_UNREACHABLE, QUEUE_FULL, JobUndecided …
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

/** The result of `work`. An error that is the candidate's fault becomes a judgement. */
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
 * Digest of everything that the result depends on: sources, variants, settings, device, the runner's code, and the
 * files that it judges by.
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

/** The key of the content to judge, and whether to judge it again. */
interface Judgement {
  key: string;
  repeat: boolean;
  plan: string;
}

/**
 * The runner's earlier attempts on this content: a judgement, or the number of ended attempts without one. A running
 * attempt is not counted, so the new request gets the running attempt's request_id and joins it.
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
