import { create } from '@bufbuild/protobuf';
import { JobKind, JobSchema, JobState, ListJobsResponseSchema, type Job } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import { stopFallbacksOf } from './stop-fallback.ts';

const EVENTS = sampleEvents();
const FALLBACK = EVENTS.findLastIndex(({ payload }) => payload.case === 'phaseStarted');

/** A runner with the sample job, of which `events` have happened. */
function runnerWith(events: number, more: Partial<Job> = {}) {
  const job = create(JobSchema, {
    name: SAMPLE_JOB,
    kind: JobKind.EXPERIMENT,
    kernelId: 'flashcore_v6',
    label: 'flashcore_v6 USE_WMMA=1',
    state: JobState.RUNNING,
    lastSequence: EVENTS[events - 1]!.sequence,
  });
  const runner = fakeRunner({ events: EVENTS });
  const listJobs = () => Promise.resolve(create(ListJobsResponseSchema, { jobs: [{ ...job, ...more }] }));
  return Object.assign(runner, { listJobs });
}

test('a fallback that decides nothing is cancelled for the next job of its kernel', async () => {
  const runner = runnerWith(FALLBACK + 1);
  expect((await stopFallbacksOf('flashcore_v6', runner)).map(({ name }) => name)).toEqual([SAMPLE_JOB]);
  expect(runner.cancelled).toEqual([SAMPLE_JOB]);
});

test('no other job is cancelled: another kernel, another owner, a variant that still decides', async () => {
  const runners = [
    runnerWith(FALLBACK + 1, { kernelId: 'flashcore_v7' }),
    runnerWith(FALLBACK + 1, { owner: 'ada' }),
    runnerWith(10),
  ];
  for (const runner of runners) expect(await stopFallbacksOf('flashcore_v6', runner)).toEqual([]);
  expect(runners.map(({ cancelled }) => cancelled)).toEqual([[], [], []]);
});
