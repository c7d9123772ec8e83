/** A client's view of a job, from the events received so far. Pure data, made by job-reducer.ts. */
import {
  JobState,
  type JobKind,
  type Outcome,
  type Phase,
  type BuildResult,
  type CaseResult,
  type Device,
  type DeviceConditions,
  type Diagnostic,
  type Finding,
  type GatePlan,
  type GateResult,
  type Job,
  type JobError,
  type JobEvent,
  type JobResult,
  type PrecheckItem,
  type ProfileProgress,
  type ProfileResult,
  type Provenance,
  type TunedVariant,
  type VerifyProgress,
  type VerifyResult,
} from '@flashcore/shared/contract';
import type { Timing } from '../present/sections/timings.ts';
import type { ComparisonView } from './live-comparison.ts';

export interface JobView {
  readonly name: string;
  readonly kind: JobKind;
  readonly label: string;
  readonly kernelId: string;
  /** Digest of the job's kernel.yaml and sources; empty if the runner did not store it. */
  readonly codeDigest: string;
  readonly labels: Job['labels'];
  readonly state: JobState;
  readonly outcome: Outcome;
  readonly summary: string;
  readonly error?: JobError | undefined;
  /** Milliseconds since 1970. */
  readonly createTime?: number | undefined;
  readonly startTime?: number | undefined;
  /** Absent if the job has ended but its last event has not been read yet. */
  readonly endTime?: number | undefined;
  /** Number of the last event applied; 0 if there is none. */
  readonly lastSequence: number;
  /**
   * True if an event arrived too early and was not applied. RunnerClient then asks again from lastSequence, which
   * closes the gap.
   */
  readonly gap: boolean;
  /** Current activity of the job, from the last event about it. */
  readonly activity?: Activity | undefined;
  /** The result from the job's last event. */
  readonly result?: JobResult | undefined;
  /** The plan that judges an experiment. */
  readonly plan?: GatePlan | undefined;
  readonly device?: Device | undefined;
  /** The cluster node that the job runs on; undefined if it runs on the runner's own host. */
  readonly node?: string | undefined;
  readonly prechecks: readonly PrecheckItem[];
  readonly phases: readonly PhaseView[];
  readonly variants: readonly VariantView[];
  /** Rows of the table of a search over variants. */
  readonly tuned: readonly TunedVariant[];
  readonly warnings: readonly string[];
  /** The runner's last report on the compilations that its device waits for; `done` is text such as "1 of 3". */
  readonly compiling?: { readonly done: string; readonly time: number } | undefined;
  /** True if the device waited for such compilations. */
  readonly hasCompiled?: boolean | undefined;
  readonly conditions?: DeviceConditions | undefined;
  readonly provenance?: Provenance | undefined;
  readonly deviceSeconds?: number | undefined;
  readonly costUsd?: number | undefined;
  /** The reason why the cost is missing. */
  readonly costMissing?: string | undefined;
}

const ACTIVITIES = [
  'created',
  'started',
  'phaseStarted',
  'verifyProgress',
  'benchmarkProgress',
  'comparisonProgress',
  'profileProgress',
  'finished',
] as const;
type Activity = Extract<JobEvent['payload'], { case: (typeof ACTIVITIES)[number] }>;

export const isActivity = (payload: JobEvent['payload']): payload is Activity =>
  ACTIVITIES.some((name) => name === payload.case);

export interface PhaseView {
  /** About a build that runs: which build it waits for, and how long the last one took. */
  readonly note?: string | undefined;
  readonly phase: Phase;
  readonly variant: string;
  /** 0 if unknown. */
  readonly steps: number;
  /** Number of finished steps; may include a fraction of the current step. */
  readonly done: number;
  readonly startTime: number;
  readonly endTime?: number | undefined;
}

export interface VariantView {
  readonly label: string;
  readonly fallback: boolean;
  readonly build?: BuildResult | undefined;
  readonly diagnostics: readonly Diagnostic[];
  /** The case and seed that are running. */
  readonly verifying?: VerifyProgress | undefined;
  /** Number of cases to verify; absent before verification begins. */
  readonly caseCount?: number | undefined;
  /** Number of probes that have ended. */
  readonly probesDone?: number | undefined;
  readonly cases: readonly CaseResult[];
  readonly verify?: VerifyResult | undefined;
  readonly benchmarks: readonly BenchmarkView[];
  /** Comparison with the champion that the request named. */
  readonly comparison?: ComparisonView | undefined;
  readonly profiling?: ProfileProgress | undefined;
  readonly profile?: ProfileResult | undefined;
  readonly gates: readonly GateResult[];
  readonly findings: readonly Finding[];
}

/** Latency of one shape, timing mode and subject, live or final. */
export interface BenchmarkView extends Timing {
  readonly key: string;
  /** Approximate number of samples to come; 0 if unknown. */
  readonly expectedSamples?: number | undefined;
  /** The last samples in order, microseconds; 0 marks a dropped sample. */
  readonly recent: readonly number[];
}

export const EMPTY_VARIANT: Omit<VariantView, 'label'> = {
  fallback: false,
  diagnostics: [],
  cases: [],
  benchmarks: [],
  gates: [],
  findings: [],
};

/** The view of a job before its first event. */
export function jobViewOf(
  job: Pick<Job, 'name' | 'kind' | 'label' | 'kernelId' | 'state' | 'outcome' | 'summary'> &
    Partial<Pick<Job, 'codeDigest' | 'labels'>>,
): JobView {
  return {
    name: job.name,
    kind: job.kind,
    label: job.label,
    kernelId: job.kernelId,
    codeDigest: job.codeDigest ?? '',
    labels: job.labels ?? {},
    state: job.state,
    outcome: job.outcome,
    summary: job.summary,
    lastSequence: 0,
    gap: false,
    prechecks: [],
    phases: [],
    variants: [],
    tuned: [],
    warnings: [],
  };
}

/** True if the runner's list says that the job has ended but its events are still being read. */
export const isBeingRead = ({ state, endTime }: JobView): boolean => state === JobState.ENDED && endTime === undefined;

/** Finished share of the phase, 0..1; undefined if the number of steps is not known. */
export function phaseShare({ steps, done, endTime }: PhaseView): number | undefined {
  if (endTime !== undefined) return 1;
  return steps > 0 ? Math.min(1, done / steps) : undefined;
}
