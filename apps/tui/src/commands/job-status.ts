/** A job's current activity, for the status line that is redrawn below the permanent lines. */
import {
  type BenchmarkProgress,
  type ComparisonProgress,
  type ProfileProgress,
  type VerifyProgress,
} from '@flashcore/shared/contract';
import { counted, formatInterval, formatMicroseconds } from '../present/numbers.ts';
import { MODE_WORDS, PHASE_WORDS, outcomeWord, caseText, runningText } from '../present/words.ts';
import type { JobView } from '../state/job-view.ts';

/** The job's current activity. The text may still contain control characters. */
export function statusText({ activity, phases }: Pick<JobView, 'activity' | 'phases'>): string {
  switch (activity?.case) {
    case 'created':
      return queueText(activity.value.job?.queuePosition ?? 0);
    case 'started':
      return `on ${activity.value.device?.name ?? 'the device'}`;
    case 'phaseStarted':
      return PHASE_WORDS[activity.value.phase];
    case 'verifyProgress':
      return verifyStatus(activity.value, Math.floor(phases.at(-1)?.done ?? 0) - activity.value.probesDone);
    case 'benchmarkProgress':
      return benchmarkStatus(activity.value);
    case 'comparisonProgress':
      return comparisonStatus(activity.value);
    case 'profileProgress':
      return profileStatus(activity.value);
    case 'finished':
      return outcomeWord(activity.value);
    case undefined:
      return '';
  }
}

const queueText = (ahead: number): string => (ahead > 0 ? `queued, ${ahead} ahead` : 'starting');

// Cases do not run in the order of the list, so the number of finished cases is shown rather than a position.
function verifyStatus(progress: VerifyProgress, casesDone: number): string {
  if (progress.seedCount === 0) return `verify ${runningText(progress)} ${caseText(progress.shape)}`;
  return `verify case ${Math.min(casesDone + 1, progress.caseCount)}/${progress.caseCount} ${caseText(progress.shape)} ${runningText(progress)}`;
}

function comparisonStatus({ shape, selfCheck, blocks, time: ratio, simulated }: ComparisonProgress): string {
  const what = selfCheck ? 'champion against itself' : 'candidate against champion';
  return `${what} ${caseText(shape)}, ${counted(blocks, 'block')}${ratio ? `, ${formatInterval(ratio)}` : ''}${simulated ? ' (simulated)' : ''}`;
}

function benchmarkStatus(progress: BenchmarkProgress): string {
  const p50 =
    progress.latency && progress.latency.samples > 0
      ? `, ${progress.latency.samples} samples, p50 ${formatMicroseconds(progress.latency.p50Us)}`
      : '';
  const subject = progress.subject === 'candidate' || progress.subject === '' ? '' : ` of ${progress.subject}`;
  return `benchmark ${caseText(progress.shape)} ${MODE_WORDS[progress.mode]}${subject}${progress.warmUp ? ' warm-up' : p50}${progress.simulated ? ' (simulated)' : ''}`;
}

function profileStatus(progress: ProfileProgress): string {
  return progress.passes > 0
    ? `profile pass ${progress.passesDone}/${progress.passes} ${progress.message}`
    : `profile ${progress.message}`;
}
