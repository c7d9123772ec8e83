/** What profiles say to try next. */
import type { GetJobResponse } from '@flashcore/shared/contract';

export interface Advised {
  readonly kernel: string;
  readonly text: string;
  readonly evidence: string;
  readonly job: string;
}

export const adviceOf = ({ job, result }: GetJobResponse): Advised[] =>
  (result?.variants ?? [])
    .filter(({ fallback }) => !fallback)
    .flatMap(({ profile }) => profile?.advice ?? [])
    .map(({ text, evidence }) => ({ kernel: job?.label || job?.kernelId || '', text, evidence, job: job?.name ?? '' }));

/** Of each kernel the advice of its latest job that has some. `jobs`: oldest first. */
export function nextSteps(jobs: readonly GetJobResponse[]): Advised[] {
  const latest = new Map<string, Advised[]>();
  for (const each of jobs) {
    const advice = adviceOf(each);
    if (advice.length > 0) latest.set(each.job?.kernelId ?? '', advice);
  }
  return [...latest.values()].flat();
}
