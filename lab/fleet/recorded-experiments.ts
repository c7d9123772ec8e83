import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { RecordedExperiment } from '@flashcore/runner/testing-daemon';
import {
  JobKind,
  JobResultSchema,
  LogLineSchema,
  PhaseStartedSchema,
  type GetJobResponse,
  type JobEvent,
  type JobResult,
} from '@flashcore/shared/contract';
import { experimentsOf } from '../tables/results.ts';

const RUNS = [
  ['h200-2026-11-21', /^run\..*\.json$/],
  ['h200-first-day-2026-11-22/jobs', /\.json$/],
] as const;

/** Experiments with the ladder's kernels that ran on an H200 (lab/results): how long each took, and its events. */
export function recordedExperiments(): RecordedExperiment[] {
  return RUNS.flatMap(([folder, names]) => experimentsOf(folder, names)).flatMap((job) => recorded(job) ?? []);
}

function recorded({ job, result }: GetJobResponse): RecordedExperiment | undefined {
  if (job?.kind !== JobKind.EXPERIMENT || !job.startTime || !job.endTime || !result) return undefined;
  const seconds = (timestampMs(job.endTime) - timestampMs(job.startTime)) / 1000;
  return {
    kernelId: job.kernelId,
    seconds,
    outcome: job.outcome,
    summary: job.summary,
    events: eventsOf(result),
    result,
  };
}

/**
 * Reconstructs a job's events from its result. Compiler output and progress are missing, because the result does not
 * contain them.
 */
function eventsOf({ variants, phaseTimes }: JobResult): JobEvent['payload'][] {
  return [
    ...phaseTimes.map(({ phase }): JobEvent['payload'] => ({
      case: 'phaseStarted',
      value: create(PhaseStartedSchema, { phase }),
    })),
    ...variants.flatMap((variant): JobEvent['payload'][] => [
      ...(variant.build ? [{ case: 'buildResult' as const, value: variant.build }] : []),
      ...(variant.verify?.cases ?? []).map((value) => ({ case: 'caseResult' as const, value })),
      ...(variant.verify ? [{ case: 'verifyResult' as const, value: variant.verify }] : []),
      ...variant.benchmarks.map((value) => ({ case: 'benchmarkResult' as const, value })),
      ...variant.gates.map((value) => ({ case: 'gateResult' as const, value })),
    ]),
  ];
}

/**
 * A copy of the experiment whose job sends one log line and an empty result, to measure what many short jobs cost a
 * cluster apart from their results.
 */
export const terse = (experiment: RecordedExperiment): RecordedExperiment => ({
  ...experiment,
  events: [{ case: 'logLine', value: create(LogLineSchema, { source: 'runner', text: 'running' }) }],
  result: create(JobResultSchema),
});
