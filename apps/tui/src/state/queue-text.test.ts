import { create } from '@bufbuild/protobuf';
import { JobSchema, JobState, type Job } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { queueText } from './queue-text.ts';

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

test('a queued job says how many are ahead on its device, and which', () => {
  expect(queueText(LIST, LIST[0]!.name)).toBe('2 ahead: 22222222 kernel_2 (running), 33333333 kernel_3');
  expect(queueText(LIST, LIST[1]!.name)).toBe('1 ahead: 22222222 kernel_2 (running)');
  expect(queueText(LIST, LIST[3]!.name)).toBe('');
});
