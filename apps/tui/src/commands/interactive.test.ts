import { create } from '@bufbuild/protobuf';
import { CallerSchema, JobSchema, JobState, type Job } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { initialState } from '../state/app-state.ts';
import { reduce } from '../state/app-reducer.ts';
import { openOwnJobs } from '../state/selectors.ts';
import { DASHBOARD_MOMENTS } from '../testing/dashboard-job.ts';
import type { CommandContext } from './context.ts';
import { isInteractive } from './interactive.ts';
import { comeBack } from './options.ts';

test('on exit, a running job is mentioned, and an ended one is not', () => {
  const start = initialState({ runner: { label: 'r', embedded: true }, columns: 80, rows: 24, now: 0 });
  const after = (moment: keyof typeof DASHBOARD_MOMENTS): readonly string[] => {
    const events = DASHBOARD_MOMENTS[moment]();
    const attached = reduce(start, { type: 'attach', job: events[0]!.job });
    return openOwnJobs(events.reduce((state, event) => reduce(state, { type: 'job-event', event }), attached));
  };
  expect([after('benchmarking'), after('finding'), openOwnJobs(start)]).toEqual([
    [DASHBOARD_MOMENTS.benchmarking()[0]!.job],
    [],
    [],
  ]);
});

test('on exit, all open jobs of the user are counted, and none of other users', () => {
  const start = initialState({ runner: { label: 'r', embedded: true }, columns: 80, rows: 24, now: 0 });
  const job = (name: string, state: JobState, owner?: string): Job =>
    create(JobSchema, { name, state, ...(owner !== undefined && { owner }) });
  const jobs = [
    job('jobs/11111111', JobState.QUEUED, 'ada'),
    job('jobs/22222222', JobState.RUNNING),
    job('jobs/33333333', JobState.QUEUED, 'bob'),
    job('jobs/44444444', JobState.ENDED, 'ada'),
  ];
  const shown = reduce(
    { ...start, jobs, caller: create(CallerSchema, { name: 'ada' }) },
    { type: 'attach', job: 'jobs/22222222' },
  );
  expect(openOwnJobs(shown)).toEqual(['jobs/22222222', 'jobs/11111111']);
  expect(comeBack(openOwnJobs(shown), { runner: 'gpu01:1' })).toBe(
    '2 jobs go on: fa-tui jobs --runner gpu01:1 lists them. Watch one: fa-tui watch 22222222 --runner gpu01:1   Cancel one: fa-tui cancel 22222222 --runner gpu01:1',
  );
});

test('the command to see the job again names the runner if the user named it', () => {
  const job = 'jobs/3f2a9c1e-0000-4000-8000-000000000001';
  expect(comeBack([job], {})).toMatch(
    /^The job goes on\. Watch it: fa-tui watch 3f2a9c1e +Cancel it: fa-tui cancel 3f2a9c1e$/,
  );
  expect(comeBack([job], { runner: 'gpu01:1' })).toMatch(/watch 3f2a9c1e --runner gpu01:1 /);
  expect(comeBack([job], { runner: 'ssh://box', startRunner: true })).toMatch(
    / 3f2a9c1e --runner ssh:\/\/box --start-runner /,
  );
});

test.each([
  ['xterm-256color', true],
  ['dumb', false],
])('TERM=%s opens the full screen: %s', (TERM, expected) => {
  const surroundings = { stdin: { isTTY: true }, stdout: { isTTY: true }, environment: { TERM } };
  expect(isInteractive({ surroundings } as unknown as CommandContext)).toBe(expected);
});
