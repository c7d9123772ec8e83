/**
 * Jobs that ran on an H200 (lab/results/h200-2026-11-21, written by `fa-tui run … --json`) as events, to test views
 * with real figures.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromJson, type JsonValue, type MessageInitShape } from '@bufbuild/protobuf';
import {
  Phase,
  GetJobResponseSchema,
  RankingSchema,
  type GetJobResponse,
  type JobEvent,
  type JobEventSchema,
  type VariantResult,
  withCurrentNames,
} from '@flashcore/shared/contract';
import { measuredFolder } from '@flashcore/shared/testing';
import { eventsOf } from './sample-job.ts';

type PayloadInit = NonNullable<MessageInitShape<typeof JobEventSchema>['payload']>;

const FOLDER = `${measuredFolder('h200-2026-11-21')}/fa-tui`;
export const MEASURED = ['flashcore_v10', 'flashcore_v9', 'nan_output'] as const;
export type MeasuredName = (typeof MEASURED)[number];

export const measuredJob = (name: MeasuredName): GetJobResponse => jobIn(`${FOLDER}/${name}.json`);

/** A job of the ladder's run on that day, as the runner reported it. */
export const ladderJob = (kernel: string): GetJobResponse =>
  jobIn(`${measuredFolder('h200-2026-11-21')}/run.${kernel}.json`);

const jobIn = (file: string): GetJobResponse =>
  fromJson(GetJobResponseSchema, withCurrentNames(JSON.parse(readFileSync(file, 'utf8'))) as JsonValue, {
    ignoreUnknownFields: true,
  });

export const measuredEvents = (name: MeasuredName): JobEvent[] => storedEvents(measuredJob(name));

/** A job that an H200 ran with a champion (lab/results/h200-decide-2026-11-22): "faster", "slower", "itself" … */
export const decidedJob = (name: string): GetJobResponse =>
  jobIn(`${measuredFolder('h200-decide-2026-11-22')}/decide.${name}.json`);

/** The events of such a job. */
export function decidedEvents(name: string): JobEvent[] {
  const job = decidedJob(name);
  const { result } = job;
  // The job was measured before ranked runs existed. These are the fields that a ranked run has today.
  if (result?.acceptability?.possible) {
    result.ranking = create(RankingSchema, { ranked: true });
    result.acceptability.over = result.variants[0]?.difference?.championJob ?? 'none';
  }
  return storedEvents(job);
}

/** Today's conclusions from the counts of this job, which an older runner recorded. */
const MODELLED_BOTTLENECK =
  'shared memory: its 622,592 wavefronts take 1.2 times as long as issuing the instructions; line 34 of bank_conflict_32way.cu makes 84 % of them';

/** A job whose profile the emulator modelled (lab/results/emulator-2026-11-22). */
export function modelledEvents(kernel: 'bank_conflict_32way'): JobEvent[] {
  const job = jobIn(`${measuredFolder('emulator-2026-11-22')}/profile.${kernel}.json`);
  for (const { profile } of job.result?.variants ?? []) if (profile) profile.bottleneck = MODELLED_BOTTLENECK;
  return storedEvents(job);
}

/**
 * A job's events, rebuilt from its stored result: the phases in order with their results, but without the log, which a
 * result does not contain.
 */
function storedEvents({ job, result }: GetJobResponse): JobEvent[] {
  if (job === undefined || result === undefined) throw new Error('must be a job with its result');
  const device = result.provenance?.device;
  const payloads: PayloadInit[] = [
    { case: 'created', value: { job } },
    { case: 'started', value: { ...(device && { device }) } },
    { case: 'phaseStarted', value: { phase: Phase.PRECHECK, steps: result.prechecks.length } },
    ...result.prechecks.map((value): PayloadInit => ({ case: 'precheck', value })),
    ...result.variants.flatMap(variantPayloads),
    { case: 'finished', value: { outcome: job.outcome, summary: job.summary, result } },
  ];
  return eventsOf(payloads, job.name);
}

function variantPayloads({ label, build, verify, benchmarks, profile, gates, findings }: VariantResult): PayloadInit[] {
  const phase = (of: Phase, steps: number): PayloadInit => ({
    case: 'phaseStarted',
    value: { phase: of, variant: label, steps },
  });
  return [
    ...(build === undefined
      ? []
      : [phase(Phase.BUILD, 1), { case: 'buildResult', value: build } satisfies PayloadInit]),
    ...(verify === undefined
      ? []
      : [
          phase(Phase.VERIFY, verify.cases.length),
          ...verify.cases.map((value): PayloadInit => ({ case: 'caseResult', value })),
          { case: 'verifyResult', value: verify } satisfies PayloadInit,
        ]),
    ...(benchmarks.length === 0
      ? []
      : [
          phase(Phase.BENCHMARK, benchmarks.length),
          ...benchmarks.map((value): PayloadInit => ({ case: 'benchmarkResult', value })),
        ]),
    ...(profile === undefined
      ? []
      : [phase(Phase.PROFILE, 1), { case: 'profileResult', value: profile } satisfies PayloadInit]),
    ...(gates.length === 0
      ? []
      : [phase(Phase.GATES, gates.length), ...gates.map((value): PayloadInit => ({ case: 'gateResult', value }))]),
    ...findings.map((value): PayloadInit => ({ case: 'finding', value })),
  ];
}

/** A listing in the form in which a runner stores it. */
export const measuredListing = (name: string): Buffer =>
  readFileSync(join(import.meta.dirname, 'measured', `${name}.json`));

/** The bytes of an artifact that was stored with the jobs, such as raw samples; undefined if it was not stored. */
export function measuredArtifact(sha256: string): Uint8Array | undefined {
  const file = `${FOLDER}/${sha256}.f32`;
  return existsSync(file) ? readFileSync(file) : undefined;
}
