/** What a client knows of a job from its events so far. Pure data; job-reducer.ts makes it. */
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
  readonly state: JobState;
  readonly outcome: Outcome;
  readonly summary: string;
  readonly error?: JobError | undefined;
  /** Milliseconds since 1970. */
  readonly createTime?: number | undefined;
  readonly startTime?: number | undefined;
  /** Absent on a job that has ended: its last event has not been read yet. */
  readonly endTime?: number | undefined;
  /** Number of the last event taken in; 0: none. */
  readonly lastSequence: number;
  /**
   * An event came before the one due next; it was not taken in. RunnerClient asks again from lastSequence, so that this
   * ends by itself.
   */
  readonly gap: boolean;
  /** What the job does now: the last event that told so. */
  readonly activity?: Activity | undefined;
  /** What its last event told. */
  readonly result?: JobResult | undefined;
  /** What an experiment is judged by. */
  readonly plan?: GatePlan | undefined;
  readonly device?: Device | undefined;
  /** The node of a cluster that it runs on; undefined: it runs on the runner's own host. */
  readonly node?: string | undefined;
  readonly prechecks: readonly PrecheckItem[];
  readonly phases: readonly PhaseView[];
  readonly variants: readonly VariantView[];
  /** Of a search over variants: the rows of its table. */
  readonly tuned: readonly TunedVariant[];
  readonly warnings: readonly string[];
  readonly conditions?: DeviceConditions | undefined;
  readonly provenance?: Provenance | undefined;
  readonly deviceSeconds?: number | undefined;
  readonly costUsd?: number | undefined;
  /** Why there is no cost. */
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
export type Activity = Extract<JobEvent['payload'], { case: (typeof ACTIVITIES)[number] }>;

export const isActivity = (payload: JobEvent['payload']): payload is Activity =>
  ACTIVITIES.some((name) => name === payload.case);

export interface PhaseView {
  readonly phase: Phase;
  readonly variant: string;
  /** 0 when not known. */
  readonly steps: number;
  /** Steps done; a fraction inside a step. */
  readonly done: number;
  readonly startTime: number;
  readonly endTime?: number | undefined;
}

export interface VariantView {
  readonly label: string;
  readonly fallback: boolean;
  readonly build?: BuildResult | undefined;
  readonly diagnostics: readonly Diagnostic[];
  /** Case and seed that run now. */
  readonly verifying?: VerifyProgress | undefined;
  /** How many cases the verification has; absent before it begins. */
  readonly caseCount?: number | undefined;
  readonly cases: readonly CaseResult[];
  readonly verify?: VerifyResult | undefined;
  readonly benchmarks: readonly BenchmarkView[];
  /** Against the champion that the request named. */
  readonly comparison?: ComparisonView | undefined;
  readonly profiling?: ProfileProgress | undefined;
  readonly profile?: ProfileResult | undefined;
  readonly gates: readonly GateResult[];
  readonly findings: readonly Finding[];
}

/** Latency of one shape, timing mode and subject, live or done. */
export interface BenchmarkView extends Timing {
  readonly key: string;
  /** About how many samples there will be; 0: not known. */
  readonly expectedSamples?: number | undefined;
  /** The last samples in order, microseconds; 0 marks one that was dropped. */
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

/** A job of which no event has come yet. */
export function jobViewOf(
  job: Pick<Job, 'name' | 'kind' | 'label' | 'kernelId' | 'state' | 'outcome' | 'summary'>,
): JobView {
  return {
    name: job.name,
    kind: job.kind,
    label: job.label,
    kernelId: job.kernelId,
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

/** The runner's list says that the job has ended; its events are still being read. */
export const isBeingRead = ({ state, endTime }: JobView): boolean => state === JobState.ENDED && endTime === undefined;

/** Share of the phase that is done, 0..1; undefined when the number of steps is not known. */
export function phaseShare({ steps, done, endTime }: PhaseView): number | undefined {
  if (endTime !== undefined) return 1;
  return steps > 0 ? Math.min(1, done / steps) : undefined;
}
