import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobResultSchema, LogLineSchema, Outcome } from '@flashcore/shared/contract';
import { simulateCluster, type RecordedExperiment } from './simulated-cluster.ts';

/** A job of the given length that logs one word. */
const lasting = (seconds: number): RecordedExperiment => ({
  kernelId: 'fa_v1_baseline',
  seconds,
  events: [{ case: 'logLine', value: create(LogLineSchema, { source: 'runner', text: 'runs' }) }],
  outcome: seconds > 50 ? Outcome.FAILED : Outcome.PASSED,
  summary: '',
  result: create(JobResultSchema),
});

// 4 s on an idle machine, over a minute if ten others share two CPUs.
const LIMITS = { timeout: 300_000 };

test('a gateway keeps the GPUs of a simulated cluster busy, and every job ends as recorded', LIMITS, async () => {
  const jobs = Array.from({ length: 60 }, (_, index) => lasting(index % 2 === 0 ? 40 : 60));
  const simulation = await simulateCluster({ nodes: 1, gpusPerNode: 4, jobs, startSeconds: 3, users: 3 });
  expect(simulation).toMatchObject({ asRecorded: true, requeues: 0 });
  expect(Math.round(simulation.usedSeconds / 10)).toBe(300);
  // Accepting a job takes a few milliseconds of the gateway's only thread. It took 400 ms when the gateway also drew
  // shapes, which only a pilot needs.
  expect(simulation.submitMs).toBeLessThan(50);
  expect(simulation.runMs).toBeLessThan(50);
  // The jobs take 3,000 s, so 750 s on each of four GPUs, and longer if a long job starts last.
  expect(simulation.makespanSeconds).toBeGreaterThan(750);
  expect(simulation.makespanSeconds).toBeLessThan(810);
});
