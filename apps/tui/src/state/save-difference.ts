/** The effect of a save: the figures that both the job before and the job after it have. */
import { JobState, Outcome, TimingMode, type LatencyStatistics } from '@flashcore/shared/contract';
import type { EntryFigureName } from '@flashcore/shared/kernels';
import { mostOf } from './pinned.ts';
import type { JobView, VariantView } from './job-view.ts';
import { variantsOf } from './selectors.ts';
import { MODE_WORDS, outcomeWord, shapeShort } from '../present/words.ts';

const RESOURCES: readonly (readonly [name: string, of: EntryFigureName])[] = [
  ['regs', 'registers_per_thread'],
  ['spills', 'spill_bytes'],
  ['SMEM', 'smem_bytes_per_cta'],
  ['CTAs/SM', 'theoretical_ctas_per_sm'],
];

/** Text such as "regs 76→61, p50 -3 %"; empty if the figures of the two jobs are equal. */
export function saveDifference(before: JobView, after: JobView): string {
  const [a, b] = [variantsOf(before)[0], variantsOf(after)[0]];
  return [
    ...outcomeChange(before, after),
    ...(a === undefined || b === undefined ? [] : [...resourceChanges(a, b), ...latencyChange(a, b)]),
  ].join(', ');
}

function outcomeChange(before: JobView, after: JobView): string[] {
  const ended = before.state === JobState.ENDED && after.state === JobState.ENDED && !wasStopped(after);
  const [was, is] = [outcomeWord(before), outcomeWord(after)];
  return ended && was !== is ? [`${was}→${is}`] : [];
}

/** A job that was stopped says nothing about its save. */
const wasStopped = ({ outcome }: JobView): boolean => outcome === Outcome.CANCELLED || outcome === Outcome.INTERRUPTED;

const resourceChanges = (a: VariantView, b: VariantView): string[] =>
  RESOURCES.flatMap(([name, of]) => {
    const [was, is] = [mostOf(a, of), mostOf(b, of)];
    return was === undefined || is === undefined || was === is ? [] : [`${name} ${was}→${is}`];
  });

/** Change of the first shape and mode that both jobs timed on a GPU. As in view 3, emulator times are not compared. */
function latencyChange(a: VariantView, b: VariantView): string[] {
  // Hot times are compared first, because the dashboard shows them.
  const hotFirst = b.benchmarks.toSorted(
    (x, y) => Number(y.mode === TimingMode.HOT) - Number(x.mode === TimingMode.HOT),
  );
  for (const own of hotFirst) {
    const other = a.benchmarks.find(({ key }) => key === own.key);
    const [was, is] = [other?.result?.latency, own.result?.latency];
    if (was === undefined || is === undefined || was.p50Us === 0 || other?.simulated || own.simulated) continue;
    const percent = (is.p50Us / was.p50Us - 1) * 100;
    const place = `${shapeShort(own.shape)} ${MODE_WORDS[own.mode]}`;
    return [
      `${place} p50 ${percent > 0 ? '+' : ''}${percent.toFixed(1)} %${isNoise(was, is) ? ' (within noise)' : ''}`,
    ];
  }
  return [];
}

/** Whether the 95 % intervals of two medians overlap. */
const isNoise = (was: LatencyStatistics, is: LatencyStatistics): boolean =>
  was.p50LowUs <= is.p50HighUs && is.p50LowUs <= was.p50HighUs;
