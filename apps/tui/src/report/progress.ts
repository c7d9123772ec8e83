import {
  ComparisonVerdict,
  Phase,
  TimingMode,
  Verdict,
  type BenchmarkProgress,
  type CaseResult,
  type ComparisonProgress,
  type GateResult,
  type JobEvent,
  type ProfileProgress,
  type VerifyProgress,
} from '@flashcore/shared/contract';
import { ratioText } from '@flashcore/shared/statistics';
import type { JobView } from '../state/job-view.ts';
import { diagnosticPlace } from './build-section.ts';
import type { StyleName } from './format.ts';
import { isDiagnosticLine } from '../session/event-lines.ts';
import { shapeText, small, time } from './numbers.ts';
import { outcomeText, verdictText } from './verdicts.ts';

/** A line to keep. Text is not yet free of control characters. */
export interface ProgressLine {
  readonly line: string;
  readonly style: StyleName;
}

const PHASES: Partial<Record<Phase, string>> = {
  [Phase.PRECHECK]: 'go/no-go check',
  [Phase.BUILD]: 'build',
  [Phase.VERIFY]: 'verify',
  [Phase.BENCHMARK]: 'benchmark',
  [Phase.COMPARE]: 'compare',
  [Phase.PROFILE]: 'profile',
  [Phase.GATES]: 'gates',
};

/** What an event leaves for someone who waits; most leave nothing. */
export function progressLine({ payload }: JobEvent): ProgressLine | undefined {
  switch (payload.case) {
    case 'created':
      return { line: payload.value.job?.name ?? '', style: 'dim' };
    case 'phaseStarted':
      return {
        line: [PHASES[payload.value.phase] ?? 'phase', payload.value.variant].filter(Boolean).join('  '),
        style: 'bold',
      };
    case 'logLine':
      return isDiagnosticLine(payload.value)
        ? undefined
        : { line: `  ${payload.value.source}: ${payload.value.text}`, style: 'dim' };
    case 'diagnostic':
      return {
        line: `  ${[diagnosticPlace(payload.value), payload.value.severity].filter(Boolean).join(': ')}: ${payload.value.message}`,
        style: payload.value.severity === 'error' ? 'red' : 'yellow',
      };
    case 'buildResult':
      return {
        line: `  ${payload.value.succeeded ? (payload.value.cacheHit ? 'cached' : 'compiled') : 'does not compile'}`,
        style: 'dim',
      };
    case 'caseResult':
      return caseLine(payload.value);
    case 'shapeComparison':
      return {
        line: `  ${shapeText(payload.value.shape)}  ${payload.value.reason}`,
        style: payload.value.verdict === ComparisonVerdict.SLOWER ? 'red' : 'dim',
      };
    case 'gateResult':
      return gateLine(payload.value);
    case 'finding':
      return { line: `  ${payload.value.message}`, style: 'red' };
    case 'warning':
      return { line: `warning: ${payload.value.message}`, style: 'yellow' };
    default:
      return undefined;
  }
}

/** What the job does now. Text is not yet free of control characters. */
export function statusText({ activity, phases }: Pick<JobView, 'activity' | 'phases'>): string {
  switch (activity?.case) {
    case 'created':
      return queueText(activity.value.job?.queuePosition ?? 0);
    case 'started':
      return `on ${activity.value.device?.name ?? 'the device'}`;
    case 'phaseStarted':
      return PHASES[activity.value.phase] ?? '';
    case 'verifyProgress':
      return verifyStatus(activity.value, Math.floor(phases.at(-1)?.done ?? 0));
    case 'benchmarkProgress':
      return benchmarkStatus(activity.value);
    case 'comparisonProgress':
      return comparisonStatus(activity.value);
    case 'profileProgress':
      return profileStatus(activity.value);
    case 'finished':
      return outcomeText(activity.value.outcome);
    case undefined:
      return '';
  }
}

const queueText = (ahead: number): string => (ahead > 0 ? `queued, ${ahead} ahead` : 'starting');

// Cases run in another order than that of the list: the count is of those that are done.
function verifyStatus(progress: VerifyProgress, casesDone: number): string {
  return `verify case ${Math.min(casesDone + 1, progress.caseCount)}/${progress.caseCount} ${shapeText(progress.shape)} seed ${progress.seedIndex + 1}/${progress.seedCount}`;
}

function caseLine(result: CaseResult): ProgressLine {
  const errors = result.elements > 0n ? `  max ${small(result.maxAbsError)}  mean ${small(result.meanAbsError)}` : '';
  return {
    line: `  ${shapeText(result.shape)}  ${verdictText(result.verdict)}${errors}`,
    style: result.verdict === Verdict.FAIL ? 'red' : 'dim',
  };
}

function comparisonStatus({ shape, selfCheck, blocks, time: ratio, simulated }: ComparisonProgress): string {
  const what = selfCheck ? 'champion against itself' : 'candidate against champion';
  return `${what} ${shapeText(shape)}, ${blocks} blocks${ratio ? `, ${ratioText(ratio)}` : ''}${simulated ? ' (simulated)' : ''}`;
}

function benchmarkStatus(progress: BenchmarkProgress): string {
  const mode = progress.mode === TimingMode.COLD ? 'cold' : 'hot';
  const p50 =
    progress.latency && progress.latency.samples > 0
      ? `, ${progress.latency.samples} samples, p50 ${time(progress.latency.p50Us)}`
      : '';
  const subject = progress.subject === 'candidate' || progress.subject === '' ? '' : ` of ${progress.subject}`;
  return `benchmark ${shapeText(progress.shape)} ${mode}${subject}${progress.warmUp ? ' warm-up' : p50}${progress.simulated ? ' (simulated)' : ''}`;
}

function profileStatus(progress: ProfileProgress): string {
  return progress.passes > 0
    ? `profile pass ${progress.passesDone}/${progress.passes} ${progress.message}`
    : `profile ${progress.message}`;
}

function gateLine(gate: GateResult): ProgressLine | undefined {
  return gate.verdict === Verdict.FAIL && gate.level === 'hard'
    ? { line: `  gate failed: ${gate.title}`, style: 'red' }
    : undefined;
}
