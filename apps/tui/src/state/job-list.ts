/**
 * The runner's list of jobs. Events of watched jobs keep it current, because the next read of the list may be seconds
 * away.
 */
import { create } from '@bufbuild/protobuf';
import { JobSchema, JobState, type Job, type JobEvent } from '@flashcore/shared/contract';
import { jobTitle, shortName } from '../present/words.ts';

/** The list after an event; the same object if the event changes nothing that the list shows. */
export function withJobEvent(jobs: readonly Job[], { job: name, payload, time }: JobEvent): readonly Job[] {
  switch (payload.case) {
    case 'created':
      return payload.value.job === undefined || jobs.some((job) => job.name === name)
        ? jobs
        : [payload.value.job, ...jobs];
    case 'started':
      return changed(jobs, name, { state: JobState.RUNNING, queuePosition: 0, ...(time && { startTime: time }) });
    case 'finished': {
      const { outcome, summary } = payload.value;
      return changed(jobs, name, { state: JobState.ENDED, outcome, summary, ...(time && { endTime: time }) });
    }
    default:
      return jobs;
  }
}

/**
 * Applies a change, unless it would move the job back to an earlier state: an event that is read again describes the
 * past.
 */
function changed(jobs: readonly Job[], name: string, change: Partial<Job> & { state: JobState }): readonly Job[] {
  const index = jobs.findIndex((job) => job.name === name);
  const job = jobs[index];
  return job === undefined || job.state >= change.state
    ? jobs
    : jobs.with(index, create(JobSchema, { ...job, ...change }));
}

/** Jobs ahead of a queued one on its device, in the order in which they will run. */
export function jobsAhead(jobs: readonly Job[], name: string): Job[] {
  const own = jobs.find((job) => job.name === name);
  if (own?.state !== JobState.QUEUED) return [];
  return jobs
    .filter(({ deviceId }) => deviceId === own.deviceId)
    .filter(
      ({ state, queuePosition }) =>
        state === JobState.RUNNING || (state === JobState.QUEUED && queuePosition < own.queuePosition),
    )
    .toSorted((a, b) => b.state - a.state || a.queuePosition - b.queuePosition);
}

/** Text such as "2 ahead: f0102ad4 fa_v2_wmma (running), 77777777 flashcore_v7"; empty if no job is ahead. */
export function queueText(jobs: readonly Job[], name: string): string {
  const ahead = jobsAhead(jobs, name);
  const titles = ahead.map(
    (job) => `${shortName(job.name)} ${jobTitle(job)}${job.state === JobState.RUNNING ? ' (running)' : ''}`,
  );
  return ahead.length === 0 ? '' : `${ahead.length} ahead: ${titles.join(', ')}`;
}
