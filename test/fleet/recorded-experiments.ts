import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { RecordedExperiment } from '@flashcore/runner/testing-daemon';
import {
  GetJobResponseSchema,
  JobKind,
  JobResultSchema,
  LogLineSchema,
  PhaseStartedSchema,
  withCurrentNames,
  type JobEvent,
  type JobResult,
} from '@flashcore/shared/contract';
import { repositoryRoot } from '../support/repository-root.ts';

const RUNS = ['docs/results/h200-first-day-2026-11-22/jobs/*.json', 'docs/results/h200-2026-11-21/run.*.json'];

/** Experiments with the ladder's kernels that an H200 ran, from docs/results: their length and their events. */
export function recordedExperiments(): RecordedExperiment[] {
  const files = RUNS.flatMap((pattern) => globSync(pattern, { cwd: repositoryRoot() })).toSorted();
  return files.flatMap((file) => recorded(join(repositoryRoot(), file)) ?? []);
}

function recorded(file: string): RecordedExperiment | undefined {
  const json = withCurrentNames(JSON.parse(readFileSync(file, 'utf8'))) as JsonValue;
  if (json === null || typeof json !== 'object' || Array.isArray(json) || !('job' in json)) return undefined;
  const { job, result } = fromJson(GetJobResponseSchema, json, { ignoreUnknownFields: true });
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
 * The events that the job must have sent, reconstructed from its result. The result has no compiler lines and progress
 * bars.
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

/** The same experiment as a job that sends few events: what many short jobs cost a cluster without their results. */
export const terse = (experiment: RecordedExperiment): RecordedExperiment => ({
  ...experiment,
  events: [{ case: 'logLine', value: create(LogLineSchema, { source: 'runner', text: 'running' }) }],
  result: create(JobResultSchema),
});
