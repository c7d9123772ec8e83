import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobEventSchema, JobSchema, JobState, Outcome, type Job, type JobEvent } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { jobsAhead, withJobEvent } from './job-list.ts';

const job = (digit: string, state: JobState, queuePosition = 0, deviceId = 'gpu-0'): Job =>
  create(JobSchema, {
    name: `jobs/${digit.repeat(8)}-0000-4000-8000-000000000000`,
    label: `kernel_${digit}`,
    state,
    queuePosition,
    deviceId,
  });
const LIST = [
  job('4', JobState.QUEUED, 2),
  job('3', JobState.QUEUED, 1),
  job('5', JobState.RUNNING, 0, 'gpu-1'),
  job('2', JobState.RUNNING),
  job('1', JobState.ENDED),
];
const event = (of: Job, payload: JobEvent['payload'], time = 5_000): JobEvent =>
  create(JobEventSchema, { job: of.name, sequence: 2n, time: timestampFromMs(time), payload });

test('jobs ahead are those of the same device, in the order in which they will run', () => {
  expect(jobsAhead(LIST, LIST[0]!.name).map(({ label }) => label)).toEqual(['kernel_2', 'kernel_3']);
  expect(jobsAhead(LIST, LIST[3]!.name)).toEqual([]);
});

test('the list follows the events of a job that is watched, and never goes back', () => {
  const finished = {
    case: 'finished',
    value: { $typeName: 'flashcore.runner.v1.JobFinished', outcome: Outcome.FAILED, summary: 'wrong' },
  } as const;
  const ended = withJobEvent(LIST, event(LIST[3]!, finished));
  expect(ended[3]).toMatchObject({ state: JobState.ENDED, outcome: Outcome.FAILED, summary: 'wrong' });
  const started = { case: 'started', value: { $typeName: 'flashcore.runner.v1.JobStarted' } } as const;
  expect(withJobEvent(ended, event(LIST[3]!, started))).toBe(ended);
  expect(withJobEvent(LIST, event(LIST[1]!, started))[1]).toMatchObject({ state: JobState.RUNNING, queuePosition: 0 });
  const newest = job('9', JobState.QUEUED);
  const created = { case: 'created', value: { $typeName: 'flashcore.runner.v1.JobCreated', job: newest } } as const;
  expect(withJobEvent(LIST, event(newest, created)).map(({ label }) => label)[0]).toBe('kernel_9');
  expect(withJobEvent(LIST, event(LIST[0]!, created))).toBe(LIST);
});
