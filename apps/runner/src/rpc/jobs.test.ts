import { expect, test } from 'vitest';
import { Outcome } from '@flashcore/shared';
import { collect, kernel, startTestRunner } from '../testing/test-runner.ts';

test('a job streams created, started, its own events and finished, numbered from 1 without gaps', async () => {
  await using fixture = await startTestRunner();
  const events = await collect(fixture.client.start('build', kernel('flood_3')));
  expect(events.map(({ sequence, payload }) => [Number(sequence), payload.case])).toEqual([
    [1, 'created'], [2, 'started'], [3, 'logLine'], [4, 'logLine'], [5, 'logLine'], [6, 'finished'],
  ]);
  expect(events.at(-1)?.payload.value).toMatchObject({ outcome: Outcome.PASSED, summary: 'passed' });
});
