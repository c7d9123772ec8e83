import { JobState, Outcome, Phase } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { reduceJob } from '../../state/job-reducer.ts';
import { jobViewOf } from '../../state/job-view.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, eventsOf, sampleEvents } from '../../testing/sample-job.ts';
import { jobRow } from './run.ts';

test('the build ends with its result; the time until the next phase is shown as a wait for the device', () => {
  const events = sampleEvents();
  const until = events.findIndex(({ payload }) => payload.case === 'buildResult');
  const view = events
    .slice(0, until + 1)
    .reduce(
      reduceJob,
      jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
    );
  const { phase, endTime } = view.phases.at(-1)!;
  expect([Phase[phase], endTime]).toEqual(['BUILD', SAMPLE_START_MS + until * 200]);
  const after = (afterMs: number) => rowText(jobRow(view, endTime! + afterMs, 100)).trimEnd();
  expect([after(100), after(8_000)]).toEqual([
    '● running  2.30 s  ✓ build USE_WMMA=1 1/2 1.40 s',
    '● running  10.2 s  ✓ build USE_WMMA=1 1/2 1.40 s   ● waiting for the device 8.00 s',
  ]);
});

test('a job that was cancelled before it ran shows no time, but shows its outcome', () => {
  const view = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finished', value: { outcome: Outcome.CANCELLED, summary: 'Cancelled while it was queued' } },
  ]).reduce(
    reduceJob,
    jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
  );
  expect(rowText(jobRow(view, SAMPLE_START_MS, 60)).trimEnd()).toBe('○ cancelled  Cancelled while it was queued');
});

test('a job whose finding is shown below keeps the word of its outcome', () => {
  const summary = 'RACE: thread (96,0,0) writes byte 1,728';
  const view = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finished', value: { outcome: Outcome.WRONG_RESULT, summary } },
  ]).reduce(
    reduceJob,
    jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
  );
  const row = (about?: string): string => rowText(jobRow(view, SAMPLE_START_MS, 60, about)).trimEnd();
  expect([row(), row('')]).toEqual(['✗ race  thread (96,0,0) writes byte 1,728', '✗ race']);
});
