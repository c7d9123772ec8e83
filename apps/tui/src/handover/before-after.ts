/**
 * Figures before and after a change. If the job has a comparison, the figures and the verdict come from it. Otherwise
 * the figure before comes from the kernel's earlier job, and there is no verdict.
 */
import { TimingMode, type GetJobResponse, type VariantResult } from '@flashcore/shared/contract';
import { comparisonAnswer, MODE_WORDS, caseText, shortName, type ComparisonAnswer } from '../present/words.ts';
import { figuresOf, placeOf, placeTitle } from './figures.ts';

export interface Step {
  readonly job: string;
  readonly shape: string;
  readonly mode: string;
  readonly simulated: boolean;
  /** Null if there is no figure for this device, shape, mode and protocol. */
  readonly before_us: number | null;
  /** Origin of the figure before, such as "flashcore_v10 in the same job" or "jobs/…, another job". */
  readonly before_of: string;
  readonly after_us: number;
  /** Speedup, only from a comparison within one job. */
  readonly ratio: { readonly ratio: number; readonly low: number; readonly high: number } | null;
  readonly verdict: string;
}

/** `before` contains earlier jobs, oldest first. */
export function stepsOf(response: GetJobResponse, variant: VariantResult, before: readonly GetJobResponse[]): Step[] {
  const compared = comparisonSteps(response, variant);
  const shown = new Set(compared.map(({ shape, mode }) => `${shape} ${mode}`));
  return [...compared, ...timingSteps(response, before).filter(({ shape, mode }) => !shown.has(`${shape} ${mode}`))];
}

function comparisonSteps({ job }: GetJobResponse, { comparison }: VariantResult): Step[] {
  return (comparison?.shapes ?? []).flatMap((compared) => {
    const { champion, candidate, time, simulated } = compared;
    if (!champion || !candidate) return [];
    return [
      {
        job: job?.name ?? '',
        shape: caseText(compared.shape),
        mode: MODE_WORDS[compared.mode],
        simulated,
        before_us: champion.p50Us,
        before_of: `${comparison?.champion?.label ?? 'champion'}, in turns in this job`,
        after_us: candidate.p50Us,
        ratio: time ? { ratio: time.ratio, low: time.low, high: time.high } : null,
        verdict: comparisonAnswer(compared satisfies ComparisonAnswer),
      },
    ];
  });
}

/** Compares the hot figures of two jobs. This is only a rough guide, because the jobs differ in time and clock rate. */
function timingSteps(response: GetJobResponse, before: readonly GetJobResponse[]): Step[] {
  const own = figuresOf([response]).filter(
    ({ variant, benchmark }) => !variant.fallback && benchmark.mode === TimingMode.HOT,
  );
  return own.map((figure) => {
    const place = placeTitle(placeOf(figure));
    const last = figuresOf(before.filter(({ job }) => job?.kernelId === response.job?.kernelId)).findLast(
      ({ shape, mode, benchmark, provenance, variant }) =>
        shape === figure.shape &&
        mode === figure.mode &&
        !variant.fallback &&
        placeTitle(placeOf({ benchmark, provenance })) === place,
    );
    return {
      job: figure.job,
      shape: figure.shape,
      mode: figure.mode,
      simulated: figure.benchmark.simulated,
      before_us: last?.benchmark.latency?.p50Us ?? null,
      before_of: last ? `${last.kernel} of ${shortName(last.job)}, another job` : 'no earlier time at this place',
      after_us: figure.benchmark.latency!.p50Us,
      ratio: null,
      verdict: last ? 'not judged: timed in different jobs, not in turns' : 'not judged: nothing to compare with',
    };
  });
}
