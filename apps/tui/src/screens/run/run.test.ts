import { Phase } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { reduceJob } from '../../state/job-reducer.ts';
import { jobViewOf } from '../../state/job-view.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from '../../testing/sample-job.ts';
import { jobRows } from './run.ts';

test('the build ends with its result; what follows until the next phase is told as a wait for the device', () => {
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
  const phasesAfter = (afterMs: number) =>
    jobRows(view, endTime! + afterMs, { width: 120, height: 40 })
      .map(rowText)
      .at(-1);
  expect([phasesAfter(100), phasesAfter(8_000)]).toEqual([
    '✓ precheck 2/2 0.6 s   ✓ build USE_WMMA=1 1/2 1.4 s',
    '✓ precheck 2/2 0.6 s   ✓ build USE_WMMA=1 1/2 1.4 s   ● waiting for the device 8.0 s',
  ]);
});
