import { expect, test } from 'vitest';
import { queueText } from './queue-text.ts';
import { QUEUE } from '../testing/job-queue.ts';

test('a queued job lists the jobs ahead on its device', () => {
  expect(queueText(QUEUE, QUEUE[0]!.name)).toBe('2 ahead: 22222222 kernel_2 (running), 33333333 kernel_3');
  expect(queueText(QUEUE, QUEUE[1]!.name)).toBe('1 ahead: 22222222 kernel_2 (running)');
  expect(queueText(QUEUE, QUEUE[3]!.name)).toBe('');
});
