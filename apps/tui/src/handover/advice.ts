/** Next steps that profiles suggest. */
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

/** The advice of each kernel's latest job that has any. `jobs` begins with the oldest. */
export function nextSteps(jobs: readonly GetJobResponse[]): Advised[] {
  const latest = new Map<string, Advised[]>();
  for (const each of jobs) {
    const advice = adviceOf(each);
    if (advice.length > 0) latest.set(each.job?.kernelId ?? '', advice);
  }
  return [...latest.values()].flat();
}
