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
/** Two jobs queued behind a running one, a running job on another device, and one that has ended. */
export const QUEUE = [
  queueJob('4', JobState.QUEUED, 2),
  queueJob('3', JobState.QUEUED, 1),
  queueJob('5', JobState.RUNNING, 0, 'gpu-1'),
  queueJob('2', JobState.RUNNING),
  queueJob('1', JobState.ENDED),
];
