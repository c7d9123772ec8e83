import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobKind, Outcome, TimingMode, Verdict, JobResultSchema, type JobResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { openDatabase } from './database.ts';
import { HistoryStore } from './history.ts';
import { JobTable } from './job-table.ts';

const shape = parseShape('2x8x512x64');
const CURRENT = 'flashcore-protocol 3';
const place = { deviceName: 'NVIDIA L4', shape };

interface Measured {
  p50: number;
  simulated?: boolean;
  valid?: boolean;
  correct?: boolean;
  speedups?: number[];
  protocol?: string;
  /** Cases that the kernel does not take. */
  refused?: number;
}

function resultOf({
  p50,
  simulated = false,
  valid = true,
  correct = true,
  speedups = [],
  protocol = CURRENT,
  refused = 0,
}: Measured): JobResult {
  return create(JobResultSchema, {
    provenance: { device: { name: 'NVIDIA L4', simulated }, sourceDigest: `source ${p50}`, protocol },
    variants: [
      {
        label: 'USE_WMMA=1',
        verify: {
          passedCases: correct ? 1 : 0,
          cases: [
            { verdict: correct ? Verdict.PASS : Verdict.FAIL, maxAbsError: 0.25 },
            ...Array.from({ length: refused }, () => ({ verdict: Verdict.NOT_MEASURED })),
          ],
        },
        benchmarks: [
          { shape, mode: TimingMode.COLD, valid: true, latency: { samples: 9, p50Us: 1 } },
          {
            shape,
            mode: TimingMode.HOT,
            simulated,
            valid,
            latency: { samples: 9, p50Us: p50 },
            sdpa: speedups.map((speedup) => ({ speedup })),
          },
        ],
        gates: [{ verdict: Verdict.PASS }, { verdict: Verdict.NOT_MEASURED }, { verdict: Verdict.NOT_MEASURED }],
      },
    ],
  });
}

function historyOf(...experiments: { kernelId: string; outcome: Outcome; measured: Measured }[]): HistoryStore {
  const database = openDatabase(':memory:');
  const history = new HistoryStore(database, { protocol: CURRENT });
  const jobs = new JobTable(database);
  experiments.forEach(({ kernelId, outcome, measured }, index) => {
    const name = `jobs/${index}`;
    const jobId = jobs.insert({
      name,
      kind: JobKind.EXPERIMENT,
      label: '',
      kernel_id: kernelId,
      device_id: 'gpu0',
      request_id: null,
      request_digest: null,
      create_ms: 0,
      owner: 'ada',
      labels: '{}',
    });
    history.record({ jobId, jobName: name, kernelId, outcome, endMs: 1000, result: resultOf(measured) });
  });
  return history;
}

const { PASSED, FAILED } = Outcome;

test('leaderboard() has the best valid result of each kernel variant, fastest first', () => {
  const history = historyOf(
    { kernelId: 'a', outcome: FAILED, measured: { p50: 30, speedups: [2, 1.5] } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 20 } },
    { kernelId: 'c', outcome: PASSED, measured: { p50: 5, valid: false } },
    { kernelId: 'd', outcome: PASSED, measured: { p50: 5, correct: false } },
    { kernelId: 'e', outcome: PASSED, measured: { p50: 5, simulated: true } },
    { kernelId: 'f', outcome: PASSED, measured: { p50: 50, refused: 2 } },
    { kernelId: 'g', outcome: FAILED, measured: { p50: 5, correct: false, refused: 1 } },
  );
  expect(
    history
      .leaderboard(place)
      .map(({ entry, sourceDigest }) => [entry.label, entry.job, entry.latency?.p50Us, entry.speedup, sourceDigest]),
  ).toEqual([
    ['b USE_WMMA=1', 'jobs/2', 20, undefined, 'source 20'],
    ['a USE_WMMA=1', 'jobs/0', 30, 1.5, 'source 30'],
    ['f USE_WMMA=1', 'jobs/6', 50, undefined, 'source 50'],
  ]);
  expect(history.leaderboard({ ...place, deviceName: 'NVIDIA H200' })).toEqual([]);
  expect(history.leaderboard({ ...place, shape: parseShape('1x8x512x64') })).toEqual([]);
  expect(history.hasSimulated(shape)).toBe(true);
});

test("only measurements by the runner's protocol are ranked and compared with; leftOut() counts the others", () => {
  const history = historyOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30, protocol: 'flashcore-protocol 2' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 35, protocol: 'flashcore-protocol 2' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 20, protocol: '' } },
    { kernelId: 'c', outcome: PASSED, measured: { p50: 20, protocol: '', valid: false } },
  );
  expect(history.leaderboard(place).map(({ entry }) => [entry.kernelId, entry.latency?.p50Us])).toEqual([['a', 40]]);
  expect(['a', 'b'].map((kernelId) => history.bestAccepted({ ...place, kernelId })?.entry.latency?.p50Us)).toEqual([
    40,
    undefined,
  ]);
  expect(history.leftOut(place)).toEqual([
    { protocol: 'flashcore-protocol 2', count: 2 },
    { protocol: '', count: 1 },
  ]);
  expect(history.leftOut({ ...place, deviceName: 'NVIDIA H200' })).toEqual([]);
});

test('bestAccepted() is the fastest of a kernel among the experiments that passed', () => {
  const history = historyOf(
    { kernelId: 'a', outcome: FAILED, measured: { p50: 30 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 50 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 20 } },
  );
  expect(history.bestAccepted({ ...place, kernelId: 'a' })?.entry.latency?.p50Us).toBe(40);
  expect(history.bestAccepted({ ...place, kernelId: 'z' })).toBeUndefined();
});

test('list() gives summaries, newest first, by pages and by kernel', () => {
  const history = historyOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 50 } },
  );
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
      gatesPassed: 1,
      gatesFailed: 0,
      gatesNotMeasured: 2,
      sourceDigest: 'source 30',
    },
  ]);
});

test('SDPA is kept by device, backend and version: the best hot time of each, never one of the emulator or an invalid one', () => {
  const database = openDatabase(':memory:');
  const history = new HistoryStore(database, { protocol: CURRENT });
  const jobs = new JobTable(database);
  const sdpa = (name: string, p50Us: number, version = 'PyTorch 2.11.0') => ({
    name,
    version,
    latency: { samples: 9, p50Us },
    tflops: 5,
  });
  const keep = (mode: TimingMode, valid: boolean, simulated: boolean, backends: ReturnType<typeof sdpa>[]) => {
    const jobId = jobs.insert({
      name: `jobs/${Math.random()}`,
      kind: JobKind.BENCHMARK,
      label: '',
      kernel_id: '',
      device_id: '',
      request_id: null,
      request_digest: null,
      create_ms: 1,
      owner: '',
      labels: '{}',
    });
    const result = create(JobResultSchema, {
      provenance: { device: { name: 'NVIDIA L4', simulated }, protocol: CURRENT },
      variants: [{ benchmarks: [{ shape, mode, valid, latency: { samples: 9, p50Us: 1 }, sdpa: backends }] }],
    });
    history.recordSdpa({ jobId, jobName: `jobs/${jobId}`, endMs: 5, result });
  };
  keep(TimingMode.HOT, true, false, [sdpa('sdpa/flash', 12), sdpa('sdpa/cudnn', 9)]);
  keep(TimingMode.HOT, true, false, [sdpa('sdpa/flash', 11), sdpa('sdpa/cudnn', 8, 'PyTorch 2.12.0')]);
  keep(TimingMode.HOT, false, false, [sdpa('sdpa/flash', 1)]);
  keep(TimingMode.HOT, true, true, [sdpa('sdpa/flash', 2)]);
  keep(TimingMode.COLD, true, false, [sdpa('sdpa/flash', 3)]);
  expect(
    history
      .sdpa(place)
      .map(({ label, sdpaVersion, latency, tflops, kernelId }) => [
        label,
        sdpaVersion,
        latency?.p50Us,
        tflops,
        kernelId,
      ]),
  ).toEqual([
    ['sdpa/cudnn', 'PyTorch 2.12.0', 8, 5, ''],
    ['sdpa/cudnn', 'PyTorch 2.11.0', 9, 5, ''],
    ['sdpa/flash', 'PyTorch 2.11.0', 11, 5, ''],
  ]);
  database.close();
});
