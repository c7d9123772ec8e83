import { expect, test } from 'vitest';
import { Outcome } from '@flashcore/shared/contract';
import { HistoryStore } from './history.ts';
import { databaseOf } from './testing/made-experiments.ts';

const { PASSED } = Outcome;

test('list() returns summaries, newest first, by page and by kernel', () => {
  const database = databaseOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 50 } },
  );
  const history = new HistoryStore(database);
  expect(history.list({ limit: 2 }).map(({ jobId }) => jobId)).toEqual([3, 2]);
  expect(history.list({ limit: 2, before: 2 }).map(({ jobId }) => jobId)).toEqual([1]);
  expect(history.list({ limit: 5, kernelId: 'a' }).map(({ summary }) => summary)).toMatchObject([
    { p50Us: 50 },
    {
      deviceName: 'NVIDIA L4',
      simulated: false,
      passedCases: 1,
      cases: 1,
      maxAbsError: 0.25,
      p50Us: 30,
      hardGates: 2,
      hardGatesPassed: 1,
      gatesPassed: 1,
      gatesFailed: 0,
      gatesNotMeasured: 2,
      sourceDigest: 'source 30',
    },
  ]);
});

test('an invalid time appears in no list; a time of the emulator appears, marked as simulated', () => {
  const database = databaseOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30, valid: false } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40, valid: false, simulated: true } },
  );
  const told = new HistoryStore(database)
    .list({ limit: 5 })
    .map(({ summary: { simulated, p50Us, timings } }) => ({ simulated, p50Us, timings: timings.length }));
  expect(told).toEqual([
    { simulated: true, p50Us: 40, timings: 2 },
    { simulated: false, p50Us: undefined, timings: 0 },
  ]);
});
