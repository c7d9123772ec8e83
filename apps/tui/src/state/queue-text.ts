/** Describes the jobs ahead of a queued job. */
import { JobState, type Job } from '@flashcore/shared/contract';
import { jobsAhead } from './job-list.ts';
import { jobTitle, shortName } from '../present/words.ts';

/** Text such as "2 ahead: f0102ad4 fa_v2_wmma (running), 77777777 flashcore_v7"; empty if no job is ahead. */
export function queueText(jobs: readonly Job[], name: string): string {
  const ahead = jobsAhead(jobs, name);
  const titles = ahead.map(
    (job) => `${shortName(job.name)} ${jobTitle(job)}${job.state === JobState.RUNNING ? ' (running)' : ''}`,
  );
  return ahead.length === 0 ? '' : `${ahead.length} ahead: ${titles.join(', ')}`;
}
