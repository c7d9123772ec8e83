/** Time spent by a job: a bar for the wait in the queue, for each phase, and for the remaining time. */
import type { Job, JobResult, PhaseTime } from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { heading, type Bar, type Block } from '../blocks.ts';
import { formatSeconds } from '../numbers.ts';
import { PHASE_WORDS, variantWord } from '../words.ts';

/** Shorter times get no bar: precheck, gates, and the moments between phases. */
const LEAST_SECONDS = 0.01;

type Timed = Pick<JobResult, 'phaseTimes' | 'deviceSeconds'>;

export function phaseTimeBlocks(
  { createTime, startTime }: Pick<Job, 'createTime' | 'startTime'>,
  timed: Timed,
): Block[] {
  if (timed.phaseTimes.length === 0) return [];
  const queued = createTime && startTime ? (timestampMs(startTime) - timestampMs(createTime)) / 1000 : 0;
  const bars = [...barOf('queued', queued), ...phaseBars(timed)];
  return [
    heading('Time', `${formatSeconds(queued + timed.deviceSeconds)} from the request to the verdict`),
    { kind: 'plot', drawing: { type: 'bars', bars, full: Math.max(...bars.map(({ value }) => value)) } },
  ];
}

/** The word for the time until the worker has opened the device. */
export const DEVICE_WAIT = 'waiting for the device';

/**
 * Bars for the phases in order, and for the time between them. If there are two variants, labels name the variant.
 * `wait` names the time until the device was open.
 */
export function phaseBars({ phaseTimes, deviceSeconds }: Timed, wait = DEVICE_WAIT): Bar[] {
  const several = new Set(phaseTimes.map(({ variant }) => variant)).size > 1;
  const inPhases = phaseTimes.reduce((sum, { seconds }) => sum + seconds, 0);
  const rest = deviceSeconds - inPhases;
  return merged([...phaseTimes.flatMap((time) => barsOf(time, { several, wait })), ...barOf('between', rest)]);
}

/** One bar for a phase that ran in two parts, such as the comparison of times and then of everything else. */
function merged(bars: readonly Bar[]): Bar[] {
  return [...Map.groupBy(bars, ({ label }) => label)].map(([label, parts]) => {
    const value = parts.reduce((sum, part) => sum + part.value, 0);
    return { label, value, text: formatSeconds(value) };
  });
}

/** Bars for the phase's own work, and for its wait until the worker has opened the device. */
function barsOf(
  { phase, variant, seconds, waitSeconds }: PhaseTime,
  { several, wait }: { readonly several: boolean; readonly wait: string },
): Bar[] {
  const label = [PHASE_WORDS[phase], several ? variantWord(variant) : ''].filter(Boolean).join(' ');
  return [...barOf(label, seconds - waitSeconds), ...barOf(wait, waitSeconds)];
}

const barOf = (label: string, seconds: number): Bar[] =>
  seconds >= LEAST_SECONDS ? [{ label, value: seconds, text: formatSeconds(seconds) }] : [];
