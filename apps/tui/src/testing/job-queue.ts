import { create } from '@bufbuild/protobuf';
import { JobSchema, JobState, type Job } from '@flashcore/shared/contract';

export const queueJob = (digit: string, state: JobState, queuePosition = 0, deviceId = 'gpu-0'): Job =>
  create(JobSchema, {
    name: `jobs/${digit.repeat(8)}-0000-4000-8000-000000000000`,
    label: `kernel_${digit}`,
    state,
    queuePosition,
    deviceId,
  });
/** Two queued behind a running one, another device at work, and one that ended. */
export const QUEUE = [
  queueJob('4', JobState.QUEUED, 2),
  queueJob('3', JobState.QUEUED, 1),
  queueJob('5', JobState.RUNNING, 0, 'gpu-1'),
  queueJob('2', JobState.RUNNING),
  queueJob('1', JobState.ENDED),
];
