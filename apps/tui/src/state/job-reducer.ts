/**
 * Applies a job's events one by one. Pure. Events may come in any order and more than once. Only the event with the
 * next number changes the view.
 */
import {
  JobState,
  Phase,
  Verdict,
  type AttemptStarted,
  type GateResult,
  type JobEvent,
  type LogLine,
  type JobResult,
} from '@flashcore/shared/contract';
import { outcomeWord } from '../present/words.ts';
import { isActivity, type JobView, type PhaseView } from './job-view.ts';
import { withComparisonProgress, withComparisonResult, withShapeComparison } from './live-comparison.ts';
import { measuredModes, withBenchmarkProgress, withBenchmarkResult, withSdpaBenchmark } from './benchmarks.ts';
import { withTunedVariant } from './tuned-variants.ts';
import { withGate, withNanCounted } from './gate-board.ts';
import { inSeenOrder, withCurrentVariant, withVariant, mergeVariants } from './variants.ts';

type Payload = NonNullable<JobEvent['payload']>;

/** The view after `event`. A repeated event changes nothing; an early one only sets `gap`. */
export function reduceJob(view: JobView, event: JobEvent): JobView {
  const sequence = Number(event.sequence);
  if (sequence <= view.lastSequence) return view;
  if (sequence > view.lastSequence + 1) return view.gap ? view : { ...view, gap: true };
  const { payload } = event;
  return {
    ...reducePayload(view, payload, timeOf(event)),
    ...(isActivity(payload) && { activity: payload }),
    lastSequence: sequence,
    gap: false,
  };
}

/** The view if the runner no longer has the events before number `first`. The next event is then number `first`. */
export const withoutEventsBefore = (view: JobView, first: number): JobView =>
  first - 1 <= view.lastSequence ? view : { ...view, lastSequence: first - 1, gap: false };

/** Milliseconds since 1970 at which the event happened. */
export function timeOf(event: JobEvent): number {
  return event.time === undefined ? 0 : Number(event.time.seconds) * 1000 + event.time.nanos / 1e6;
}

function reducePayload(view: JobView, payload: Payload, time: number): JobView {
  switch (payload.case) {
    case 'created': {
      const job = payload.value.job;
      if (job === undefined) return view;
      return {
        ...view,
        kind: job.kind,
        label: job.label,
        kernelId: job.kernelId,
        codeDigest: job.codeDigest,
        labels: job.labels,
        state: notBefore(view, JobState.QUEUED),
        createTime: time,
      };
    }
    case 'started':
      return {
        ...view,
        state: notBefore(view, JobState.RUNNING),
        startTime: time,
        device: payload.value.device,
      };
    case 'attemptStarted':
      return withAttempt(view, payload.value);
    case 'phaseStarted': {
      const { phase, variant, steps } = payload.value;
      const phases = [...endPhases(view.phases, time), { phase, variant, steps, done: 0, startTime: time }];
      // The precheck applies to the kernel, not to a variant.
      const next = { ...view, phases };
      return phase === Phase.PRECHECK ? next : withVariant(next, variant, (current) => current);
    }
    case 'diagnostic':
      return withCurrentVariant(view, (variant) => ({
        ...variant,
        diagnostics: [...variant.diagnostics, payload.value],
      }));
    case 'precheck':
      return withStepDone({ ...view, prechecks: [...view.prechecks, payload.value] });
    case 'buildResult':
      return withCurrentVariant(withBuildEnded(withStepDone(view, Phase.BUILD), time), (variant) => ({
        ...variant,
        build: payload.value,
      }));
    case 'verifyProgress': {
      const { caseCount, seedIndex, seedCount, probesDone, probeCount, blocksBegun, blocks } = payload.value;
      const ofSeed = blocks > 0n ? Number(blocksBegun) / Number(blocks) : 0;
      // The runner runs the cheapest cases first, so progress counts finished cases instead of using the case's index.
      const next = withCurrentVariant(view, (variant) => ({
        ...variant,
        verifying: payload.value,
        caseCount,
        probesDone,
      }));
      return withProgress(next, {
        done: countEnded(next) + (seedCount > 0 ? (seedIndex + ofSeed) / seedCount : 0),
        steps: caseCount + probeCount,
      });
    }
    case 'caseResult':
      return withCurrentVariant(
        view,
        (variant) => {
          const cases = [...variant.cases, payload.value];
          return { ...variant, verifying: undefined, cases, gates: withNanCounted(variant.gates, cases) };
        },
        (next) => withProgress(next, { done: countEnded(next) }),
      );
    case 'verifyResult':
      return withCurrentVariant(view, (variant) => ({
        ...variant,
        verify: payload.value,
        verifying: undefined,
        cases: inSeenOrder(variant.cases, payload.value.cases),
      }));
    case 'benchmarkProgress':
      return withModesMeasured(
        withCurrentVariant(view, (variant) => ({
          ...variant,
          benchmarks: withBenchmarkProgress(variant.benchmarks, payload.value),
        })),
      );
    case 'benchmarkResult':
      return withModesMeasured(
        withCurrentVariant(view, (variant) => ({
          ...variant,
          benchmarks: withBenchmarkResult(variant.benchmarks, payload.value),
        })),
      );
    case 'sdpaBenchmark':
      return withCurrentVariant(withStepDone(view), (variant) => ({
        ...variant,
        benchmarks: withSdpaBenchmark(variant.benchmarks, payload.value),
      }));
    case 'comparisonProgress':
      return withCurrentVariant(view, (variant) => ({
        ...variant,
        comparison: withComparisonProgress(variant.comparison, payload.value),
      }));
    case 'shapeComparison':
      return withCurrentVariant(withStepDone(view), (variant) => ({
        ...variant,
        comparison: withShapeComparison(variant.comparison, payload.value),
      }));
    case 'comparisonResult':
      return withCurrentVariant(view, (variant) => ({
        ...variant,
        comparison: withComparisonResult(variant.comparison, payload.value),
      }));
    case 'profileProgress':
      return withCurrentVariant(
        withProgress(view, { done: payload.value.passesDone, steps: payload.value.passes }),
        (variant) => ({ ...variant, profiling: payload.value }),
      );
    case 'profileResult':
      // The profile may arrive while another phase runs.
      return withCurrentVariant(withStepDone(view, Phase.PROFILE), (variant) => ({
        ...variant,
        profile: payload.value,
        profiling: undefined,
      }));
    case 'gatePlan':
      return withVariant({ ...view, plan: payload.value.plan }, payload.value.variant, (variant) => ({
        ...variant,
        gates: payload.value.plan?.gates ?? [],
      }));
    case 'gateResult': {
      // A gate is reported as soon as it is decided. Only gates that are decided during the gates phase are steps of
      // that phase.
      const next = withStepDone(view, Phase.GATES);
      return withCurrentVariant(next, (variant) => ({ ...variant, gates: withGate(variant.gates, payload.value) }));
    }
    case 'finding':
      return withCurrentVariant(view, (variant) => ({ ...variant, findings: [...variant.findings, payload.value] }));
    case 'tunedVariant':
      return { ...view, tuned: withTunedVariant(view.tuned, payload.value) };
    case 'deviceConditions':
      return { ...view, conditions: payload.value };
    case 'warning':
      return { ...view, warnings: [...view.warnings, payload.value.message] };
    case 'finished': {
      const { outcome, summary, error, result } = payload.value;
      const variants = view.variants.map((variant) => ({ ...variant, verifying: undefined, profiling: undefined }));
      const ended = {
        ...view,
        variants,
        state: JobState.ENDED,
        outcome,
        summary,
        error,
        result,
        endTime: time,
        phases: endPhases(view.phases, time),
      };
      return withGatesClosed(result === undefined ? ended : withResult(ended, result));
    }
    case 'logLine':
      return withLogLine(view, payload.value, time);
    case undefined:
      return view;
    default:
      // An event that only newer runners send.
      return view;
  }
}

const COMPILING = /^compiling .+?(?:: (\d+ of \d+) done,| with )/;

/** The runner's notes about a slow build: whose build the job waits for, and how long the last one took. */
const BUILD_NOTE = /^(?:building the kernel; (the last .+)|(waiting for the (?:same )?build.+))$/;

/** The runner tells in its log, every 10 s, what it compiles before its device can start. */
function withLogLine(view: JobView, { source, text }: LogLine, time: number): JobView {
  if (source !== 'runner') return view;
  const [isCompiling, done = ''] = COMPILING.exec(text) ?? [];
  if (isCompiling !== undefined) return { ...view, compiling: { done, time }, hasCompiled: true };
  const [, last, note = last] = BUILD_NOTE.exec(text) ?? [];
  const phase = view.phases.at(-1);
  if (note !== undefined && phase?.phase === Phase.BUILD)
    return { ...view, phases: [...view.phases.slice(0, -1), { ...phase, note }] };
  return text.startsWith('compilations: ') ? { ...view, compiling: undefined } : view;
}

/** The state that an event gives a job, except that a job that has ended stays ended when its old events are read. */
const notBefore = ({ state }: JobView, told: JobState): JobState => (state === JobState.ENDED ? state : told);

/** The view of a job that starts again on another node. Findings of the earlier attempt remain only in the log. */
function withAttempt(view: JobView, { attempt, node, device = view.device, reason }: AttemptStarted): JobView {
  const placed = { ...view, node, device };
  if (attempt <= 1) return placed;
  return {
    ...placed,
    phases: [],
    prechecks: [],
    variants: [],
    tuned: [],
    plan: undefined,
    warnings: [
      ...view.warnings,
      `attempt ${attempt} began on ${node}: ${reason ?? 'the previous attempt did not finish'}`,
    ],
  };
}

function withResult(view: JobView, result: JobResult): JobView {
  return {
    ...view,
    // The result of a job that was stopped contains only the plan's name.
    plan: result.plan?.gates.length ? result.plan : (view.plan ?? result.plan),
    provenance: result.provenance,
    deviceSeconds: result.deviceSeconds,
    costUsd: result.costUsd,
    costMissing: result.costMissing,
    prechecks: result.prechecks.length > 0 ? result.prechecks : view.prechecks,
    variants: mergeVariants(view.variants, result.variants),
    device: view.device ?? result.provenance?.device,
  };
}

/** Closes gates that were undecided when the job ended. Otherwise they would be shown as still to come. */
function withGatesClosed(view: JobView): JobView {
  const why = `the job ended before (${outcomeWord(view)})`;
  const close = (gate: GateResult): GateResult =>
    gate.verdict === Verdict.UNSPECIFIED ? { ...gate, verdict: Verdict.NOT_MEASURED, detail: why } : gate;
  return { ...view, variants: view.variants.map((variant) => ({ ...variant, gates: variant.gates.map(close) })) };
}

const endPhases = (phases: readonly PhaseView[], time: number): PhaseView[] =>
  phases.map((phase) => (phase.endTime === undefined ? { ...phase, endTime: time } : phase));

/**
 * Ends the build phase with its result. The time until the next phase is spent waiting for the device, which takes long
 * on first use, and is not part of building.
 */
const withBuildEnded = (view: JobView, time: number): JobView =>
  view.phases.at(-1)?.phase === Phase.BUILD ? { ...view, phases: endPhases(view.phases, time) } : view;

function withProgress(view: JobView, { done, steps }: { done: number; steps?: number }): JobView {
  const last = view.phases.at(-1);
  if (last === undefined) return view;
  return {
    ...view,
    phases: [
      ...view.phases.slice(0, -1),
      { ...last, done, steps: steps === undefined || steps === 0 ? last.steps : steps },
    ],
  };
}

/** Counts a step of the running phase, if the event is about that phase. */
function withStepDone(view: JobView, of?: Phase): JobView {
  const last = view.phases.at(-1);
  return of !== undefined && last?.phase !== of ? view : withProgress(view, { done: (last?.done ?? 0) + 1 });
}

/** Updates the benchmark's progress. The expected number of samples may grow, but progress never goes back. */
function withModesMeasured(view: JobView): JobView {
  const last = view.phases.at(-1);
  if (last?.phase !== Phase.BENCHMARK) return view;
  return withProgress(view, { done: Math.max(last.done, measuredModes(view.variants.at(-1)?.benchmarks ?? [])) });
}

/** The number of probes and cases that have ended. */
function countEnded(view: JobView): number {
  const { probesDone = 0, cases = [] } = view.variants.at(-1) ?? {};
  return probesDone + cases.length;
}
