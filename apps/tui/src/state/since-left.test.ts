import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobSchema, JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { initialState, type AppState } from './app-state.ts';
import { jobViewOf } from './job-view.ts';
import { jobsOf } from './selectors.ts';
import { isUnseen, jobSinceLeft, labLogTimes, sinceLeftText, unseenLegend } from './since-left.ts';

const LEFT = new Date(2026, 10, 30, 23, 43).getTime();
const MINUTE = 60_000;

const ended = (name: string, minutes: number, outcome: Outcome, more: MessageInitShape<typeof JobSchema> = {}): Job =>
  create(JobSchema, {
    name,
    outcome,
    state: JobState.ENDED,
    endTime: timestampFromMs(LEFT + minutes * MINUTE),
    ...more,
  });

const JOBS = [
  ended('a', 10, Outcome.PASSED),
  ended('b', 20, Outcome.INTERRUPTED),
  ended('c', 30, Outcome.PASSED),
  ended('before', -1, Outcome.FAILED),
  create(JobSchema, { name: 'runs', state: JobState.RUNNING }),
];

function away(change: Partial<AppState> = {}): AppState {
  const runner = { label: '', embedded: true };
  return {
    ...initialState({ runner, columns: 80, rows: 24, now: LEFT + 70 * MINUTE }),
    jobs: JOBS,
    leftAt: LEFT,
    ...change,
  };
}

test('on return, the message counts what ended since and names the key of the lab log', () => {
  expect(sinceLeftText(away())).toBe('Since 23:43: 2 passed, 1 interrupted. 6 marks them with •, L shows the lab log');
});

test('the lab log begins when the user left, and lists all jobs if none has ended since', () => {
  expect(labLogTimes(away())).toEqual([LEFT, 0]);
  expect(labLogTimes(away({ jobs: JOBS.slice(3) }))).toEqual([0]);
  expect(labLogTimes(away({ leftAt: undefined }))).toEqual([0]);
});

test('there is no message if nothing ended since, or if it is the first visit', () => {
  expect(sinceLeftText(away({ jobs: JOBS.slice(3) }))).toBe(undefined);
  expect(sinceLeftText(away({ leftAt: undefined }))).toBe(undefined);
});

test('a job that ended meanwhile is marked until it is opened', () => {
  const state = away();
  expect(JOBS.filter((job) => isUnseen(state, job)).map(({ name }) => name)).toEqual(['a', 'b', 'c']);
  expect(unseenLegend(state, JOBS)).toBe(', • ended since 23:43 and not shown yet');
  const opened = away({ views: { a: jobViewOf(JOBS[0]!) } });
  expect(JOBS.filter((job) => isUnseen(opened, job)).map(({ name }) => name)).toEqual(['b', 'c']);
  expect(unseenLegend(opened, JOBS.slice(0, 1))).toBe('');
});

test('jobs that ended meanwhile come before older ones that ended earlier, even if those were submitted later', () => {
  const at = (minutes: number) => ({ createTime: timestampFromMs(LEFT + minutes * MINUTE) });
  const jobs = [
    ended('since', 65, Outcome.PASSED, at(64)),
    ended('before', -1, Outcome.PASSED, at(-2)),
    ended('meanwhile', 10, Outcome.FAILED, at(-5)),
    ended('old', -9, Outcome.PASSED, at(-20)),
  ];
  const listed = (leftAt?: number) => jobsOf(away({ jobs, leftAt })).map(({ name }) => name);
  expect(listed(LEFT)).toEqual(['since', 'meanwhile', 'before', 'old']);
  expect(listed()).toEqual(['since', 'before', 'meanwhile', 'old']);
});

test('the job to open on return is the newest that did not pass, or else the newest that ended', () => {
  const opened = (jobs: readonly Job[], leftAt?: number): string | undefined =>
    jobSinceLeft({ jobs, views: {}, leftAt })?.name;
  expect([
    opened(JOBS, LEFT),
    opened(
      JOBS.filter(({ outcome }) => outcome === Outcome.PASSED),
      LEFT,
    ),
    opened(JOBS.slice(3), LEFT),
    opened(JOBS),
  ]).toEqual(['b', 'a', undefined, undefined]);
});
