import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobEventSchema, JobState, Outcome, type Job, type JobEvent, JobSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { jobsAhead, withJobEvent, queueText } from './job-list.ts';

const queueJob = (digit: string, state: JobState, queuePosition = 0, deviceId = 'gpu-0'): Job =>
  create(JobSchema, {
    name: `jobs/${digit.repeat(8)}-0000-4000-8000-000000000000`,
    label: `kernel_${digit}`,
    state,
    queuePosition,
    deviceId,
  });
/** Two jobs queued behind a running one, a running job on another device, and one that has ended. */
const QUEUE = [
  queueJob('4', JobState.QUEUED, 2),
  queueJob('3', JobState.QUEUED, 1),
  queueJob('5', JobState.RUNNING, 0, 'gpu-1'),
  queueJob('2', JobState.RUNNING),
  queueJob('1', JobState.ENDED),
];

const event = (of: Job, payload: JobEvent['payload'], time = 5_000): JobEvent =>
  create(JobEventSchema, { job: of.name, sequence: 2n, time: timestampFromMs(time), payload });

test('the jobs ahead are those on the same device, in the order in which they will run', () => {
  expect(jobsAhead(QUEUE, QUEUE[0]!.name).map(({ label }) => label)).toEqual(['kernel_2', 'kernel_3']);
  expect(jobsAhead(QUEUE, QUEUE[3]!.name)).toEqual([]);
});

test('the list follows the events of a watched job and never goes back to an earlier state', () => {
  const finished = {
    case: 'finished',
    value: { $typeName: 'flashcore.runner.v1.JobFinished', outcome: Outcome.FAILED, summary: 'wrong' },
  } as const;
  const ended = withJobEvent(QUEUE, event(QUEUE[3]!, finished));
  expect(ended[3]).toMatchObject({ state: JobState.ENDED, outcome: Outcome.FAILED, summary: 'wrong' });
  const started = { case: 'started', value: { $typeName: 'flashcore.runner.v1.JobStarted' } } as const;
  expect(withJobEvent(ended, event(QUEUE[3]!, started))).toBe(ended);
  expect(withJobEvent(QUEUE, event(QUEUE[1]!, started))[1]).toMatchObject({
    state: JobState.RUNNING,
    queuePosition: 0,
  });
  const newest = queueJob('9', JobState.QUEUED);
  const created = { case: 'created', value: { $typeName: 'flashcore.runner.v1.JobCreated', job: newest } } as const;
  expect(withJobEvent(QUEUE, event(newest, created)).map(({ label }) => label)[0]).toBe('kernel_9');
  expect(withJobEvent(QUEUE, event(QUEUE[0]!, created))).toBe(QUEUE);
});

test('a queued job lists the jobs ahead on its device', () => {
  expect(queueText(QUEUE, QUEUE[0]!.name)).toBe('2 ahead: 22222222 kernel_2 (running), 33333333 kernel_3');
  expect(queueText(QUEUE, QUEUE[1]!.name)).toBe('1 ahead: 22222222 kernel_2 (running)');
  expect(queueText(QUEUE, QUEUE[3]!.name)).toBe('');
});
