/** Jobs that ended while the user was away. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { formatTimeOfDay } from '../present/numbers.ts';
import { jobMark } from '../present/words.ts';
import type { AppState } from './app-state.ts';

/** True for a job that ended after the user last left. */
export const endedSince = (leftAt: number | undefined, { state, endTime }: Job): boolean =>
  leftAt !== undefined && state === JobState.ENDED && endTime !== undefined && timestampMs(endTime) > leftAt;

/** True for a job that ended after the user last left, and that has not been opened since. */
export const isUnseen = ({ leftAt, views }: Pick<AppState, 'leftAt' | 'views'>, job: Job): boolean =>
  endedSince(leftAt, job) && entryOf(views, job.name) === undefined;

/** The times from which the lab log can start, default first, in milliseconds since 1970; 0 means all jobs. */
export const labLogTimes = ({ leftAt = 0, jobs }: Pick<AppState, 'leftAt' | 'jobs'>): readonly number[] =>
  leftAt > 0 && jobs.some((job) => endedSince(leftAt, job)) ? [leftAt, 0] : [0];

/** The legend of the mark of unseen jobs; empty if no listed job has it. */
export const unseenLegend = (state: Pick<AppState, 'leftAt' | 'views'>, jobs: readonly (Job | undefined)[]): string =>
  jobs.some((job) => job !== undefined && isUnseen(state, job))
    ? `, • ended since ${timeText(state.leftAt ?? 0)} and not shown yet`
    : '';

/** The newest job that ended while the user was away, preferably one that did not pass. */
export function jobSinceLeft({ leftAt, views, jobs }: Pick<AppState, 'leftAt' | 'views' | 'jobs'>): Job | undefined {
  const ended = jobs.filter((job) => isUnseen({ leftAt, views }, job));
  return ended.find(({ outcome }) => outcome !== Outcome.PASSED) ?? ended[0];
}

/** Text such as "Since 11:43: 2 passed, 1 wrong result. …"; undefined if no job has ended since. */
export function sinceLeftText({ leftAt, views, jobs }: AppState): string | undefined {
  const ended = jobs.filter((job) => isUnseen({ leftAt, views }, job));
  if (leftAt === undefined || ended.length === 0) return undefined;
  const counts = [...Map.groupBy(ended, (job) => jobMark(job).word)].map(([word, { length }]) => `${length} ${word}`);
  return `Since ${timeText(leftAt)}: ${counts.join(', ')}. 6 marks them with •, L shows the lab log`;
}

const timeText = (ms: number): string => formatTimeOfDay(ms).slice(0, 5);
