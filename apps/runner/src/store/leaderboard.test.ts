import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { DecisionKind, JobResultSchema, Outcome, TimingMode, type LeaderboardEntry } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import type { Database } from './database.ts';
import { DecisionStore } from './decisions.ts';
import { HistoryStore } from './history.ts';
import { BASELINE_KERNEL, Leaderboard, type RankedPlace } from './leaderboard.ts';
import {
  CURRENT_PROTOCOL,
  MEASURED_SHAPE,
  databaseOf,
  storeJob,
  type MadeExperiment,
} from './testing/made-experiments.ts';

const { PASSED, FAILED } = Outcome;
const place: RankedPlace = {
  deviceName: 'NVIDIA L4',
  problem: 'attention',
  shape: MEASURED_SHAPE,
  dtype: 'fp16',
  mode: TimingMode.HOT,
  protocol: CURRENT_PROTOCOL,
};

const OPTIONS = { protocol: CURRENT_PROTOCOL, sourcesOf: () => 'own' };

const boardOf = (...experiments: MadeExperiment[]): Leaderboard => new Leaderboard(databaseOf(...experiments), OPTIONS);

const kernelAndTime = ({ kernelId, label, latency }: LeaderboardEntry): [string, number | undefined] => [
  kernelId || label,
  latency?.p50Us,
];

test('at() ranks measurements of ranked runs, with a row for each person and kernel, and counts the measurements that it leaves out', () => {
  const board = boardOf(
    { kernelId: 'a', outcome: PASSED, owner: 'ada', measured: { p50: 40 } },
    { kernelId: 'a', outcome: PASSED, owner: 'ada', measured: { p50: 30 } },
    { kernelId: 'a', outcome: PASSED, owner: 'bob', measured: { p50: 35 } },
    { kernelId: 'a', outcome: PASSED, owner: 'bob', measured: { p50: 1, ranked: false } },
    { kernelId: 'b', outcome: PASSED, owner: 'eve', measured: { p50: 2, ranked: undefined } },
  );
  expect(board.at(place).map(({ owner, latency, lineage }) => [owner, latency!.p50Us, lineage])).toEqual([
    ['ada', 30, ['below']],
    ['bob', 35, ['below']],
  ]);
  expect(board.notCounted(place)).toEqual({ notRanked: 2, rejected: 0 });
  expect(board.places().map(({ results }) => results)).toEqual([3, 3]);
});

test('a rejected result has no row and is counted, until the rejection is undone', () => {
  const database = databaseOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
  );
  const board = new Leaderboard(database, OPTIONS);
  const decisions = new DecisionStore(database);
  const decide = (kind: DecisionKind, undoes = 0): number => {
    const job = { id: 1, name: 'jobs/1', label: 'a' };
    return Number(decisions.add({ kind, job, client: 'ada', role: 'admin', note: '', undoes }).number);
  };
  const state = () => [
    board.at(place).map(({ latency }) => latency!.p50Us),
    board.notCounted(place).rejected,
    board.places()[0]!.results,
  ];
  decide(DecisionKind.ACCEPTED);
  expect(state()).toEqual([[30], 0, 2]);
  const rejection = decide(DecisionKind.REJECTED);
  decide(DecisionKind.NOTED);
  expect(state()).toEqual([[40], 1, 1]);
  decide(DecisionKind.UNDONE, rejection);
  expect(state()).toEqual([[30], 0, 2]);
  decide(DecisionKind.REJECTED);
  decide(DecisionKind.ACCEPTED);
  expect(state()).toEqual([[30], 0, 2]);
});

test('a kernel that is found wrong after its verification has no row', () => {
  const board = boardOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 30, wrong: 'on held-out shapes' } },
    { kernelId: 'c', outcome: Outcome.WRONG_RESULT, measured: { p50: 20, wrong: 'while compared' } },
  );
  expect(board.at(place).map(kernelAndTime)).toEqual([['a', 40]]);
});

test('at() returns the best valid result of each kernel, fastest first', () => {
  const board = boardOf(
    { kernelId: 'a', outcome: FAILED, measured: { p50: 30, speedups: [2, 1.5] } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 20 } },
    { kernelId: 'c', outcome: PASSED, measured: { p50: 5, valid: false } },
    { kernelId: 'd', outcome: PASSED, measured: { p50: 5, correct: false } },
    { kernelId: 'e', outcome: PASSED, measured: { p50: 5, simulated: true } },
    { kernelId: 'f', outcome: PASSED, measured: { p50: 50, dtype: '', refused: 2 } },
    { kernelId: 'g', outcome: FAILED, measured: { p50: 5, correct: false, refused: 1 } },
    { kernelId: 'h', outcome: PASSED, measured: { p50: 5, speedups: [3], dtype: 'bf16' } },
  );
  expect(
    board
      .at(place)
      .map(({ label, job, latency, speedup, sourceDigest, hostName, schedulerJob }) => [
        ...[label, job, latency?.p50Us, speedup, sourceDigest],
        hostName,
        schedulerJob,
      ]),
  ).toEqual([
    ['b USE_WMMA=1', 'jobs/2', 20, undefined, 'source 20', 'node 20', '20'],
    ['a USE_WMMA=1', 'jobs/0', 30, 1.5, 'source 30', 'node 30', '30'],
    ['f USE_WMMA=1', 'jobs/6', 50, undefined, 'source 50', 'node 50', '50'],
  ]);
  expect(board.at({ ...place, shape: parseShape('1x8x512x64') })).toEqual([]);
  expect(board.hasSimulated(place)).toBe(true);
});

test('each dtype has its own leaderboard: figures of different dtypes are never ranked or compared together', () => {
  const board = boardOf(
    { kernelId: BASELINE_KERNEL, outcome: PASSED, measured: { p50: 300, sources: 'own' } },
    { kernelId: BASELINE_KERNEL, outcome: PASSED, measured: { p50: 200, sources: 'own', dtype: 'bf16' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 100, dtype: 'bf16' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 600, dtype: 'fp32' } },
  );
  const speedups = (dtype: string) =>
    board.at({ ...place, dtype }).map((entry) => [...kernelAndTime(entry), entry.speedupOverBaseline]);
  expect(['fp16', 'bf16', 'fp32'].map(speedups)).toEqual([
    [[BASELINE_KERNEL, 300, 1]],
    [
      ['a', 100, 2],
      [BASELINE_KERNEL, 200, 1],
    ],
    [['a', 600, undefined]],
  ]);
  const hot = board.places().filter(({ mode }) => mode === TimingMode.HOT);
  expect(hot.map(({ dtype, results }) => [dtype, results])).toEqual([
    ['bf16', 2],
    ['fp32', 1],
    ['fp16', 1],
  ]);
});

test("an upload with the baseline's id changes no speedup", () => {
  const board = boardOf(
    { kernelId: BASELINE_KERNEL, owner: 'ada', outcome: PASSED, measured: { p50: 400, sources: 'own' } },
    { kernelId: BASELINE_KERNEL, owner: 'ada', outcome: PASSED, measured: { p50: 300, sources: 'edited' } },
    { kernelId: BASELINE_KERNEL, owner: 'eve', outcome: PASSED, measured: { p50: 20 } },
    { kernelId: 'a', owner: 'ada', outcome: PASSED, measured: { p50: 40 } },
  );
  expect(board.at(place).map((entry) => [...kernelAndTime(entry), entry.speedupOverBaseline])).toEqual([
    [BASELINE_KERNEL, 20, 20],
    ['a', 40, 10],
    [BASELINE_KERNEL, 300, 400 / 300],
  ]);
});

test('device, mode and protocol are filters: results of other places are not ranked and give no speedup', () => {
  const board = boardOf(
    { kernelId: BASELINE_KERNEL, outcome: PASSED, measured: { p50: 400, sources: 'own', device: 'NVIDIA H200' } },
    {
      kernelId: BASELINE_KERNEL,
      outcome: PASSED,
      measured: { p50: 300, sources: 'own', protocol: 'flashcore-protocol 2' },
    },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 50, device: 'NVIDIA H200' } },
  );
  const speedups = (where: Partial<RankedPlace>) =>
    board.at({ ...place, ...where }).map((entry) => [...kernelAndTime(entry), entry.speedupOverBaseline]);
  expect(speedups({})).toEqual([['a', 40, undefined]]);
  expect(speedups({ mode: TimingMode.COLD })).toEqual([['a', 4, undefined]]);
  expect(speedups({ deviceName: 'NVIDIA H200' })).toEqual([
    ['a', 50, 8],
    [BASELINE_KERNEL, 400, 1],
  ]);
  expect(speedups({ protocol: 'flashcore-protocol 2' })).toEqual([[BASELINE_KERNEL, 300, 1]]);
  expect(
    board.places().map(({ deviceName, mode, protocol, results }) => [deviceName, mode, protocol, results]),
  ).toEqual([
    ['NVIDIA H200', TimingMode.COLD, CURRENT_PROTOCOL, 2],
    ['NVIDIA H200', TimingMode.HOT, CURRENT_PROTOCOL, 2],
    ['NVIDIA L4', TimingMode.COLD, 'flashcore-protocol 2', 1],
    ['NVIDIA L4', TimingMode.COLD, CURRENT_PROTOCOL, 1],
    ['NVIDIA L4', TimingMode.HOT, 'flashcore-protocol 2', 1],
    ['NVIDIA L4', TimingMode.HOT, CURRENT_PROTOCOL, 1],
  ]);
});

test('an entry has the registers of the launched entry, its owner, and the labels of a search', () => {
  const database = databaseOf({
    kernelId: 'a',
    outcome: PASSED,
    owner: 'grace',
    labels: '{"search":"s1","trial":"7"}',
    measured: { p50: 40, registers: [96, 128] },
  });
  expect(new HistoryStore(database).list({ limit: 1 })[0]!.summary.registersPerThread).toBe(96);
  expect(new Leaderboard(database, OPTIONS).at(place)).toMatchObject([
    { registers: 96, owner: 'grace', labels: { search: 's1', trial: '7' }, job: 'jobs/0' },
  ]);
});

test('leftOut() counts measurements by another protocol', () => {
  const board = boardOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 30, protocol: 'flashcore-protocol 2' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 35, protocol: 'flashcore-protocol 2' } },
    { kernelId: 'a', outcome: PASSED, measured: { p50: 40 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 20, protocol: '' } },
    { kernelId: 'c', outcome: PASSED, measured: { p50: 20, protocol: '', valid: false } },
  );
  expect(board.at(place).map(kernelAndTime)).toEqual([['a', 40]]);
  expect(board.leftOut(place)).toEqual([
    { protocol: 'flashcore-protocol 2', count: 2 },
    { protocol: '', count: 1 },
  ]);
  expect(board.leftOut({ ...place, deviceName: 'NVIDIA H200' })).toEqual([]);
});

interface MadeSdpa {
  mode?: TimingMode;
  valid?: boolean;
  simulated?: boolean;
  backends: { name: string; p50Us: number; version?: string }[];
}

function keepSdpa(
  database: Database,
  { mode = TimingMode.HOT, valid = true, simulated = false, backends }: MadeSdpa,
): void {
  const name = `jobs/${crypto.randomUUID()}`;
  const jobId = storeJob(database, { name, kernelId: '' });
  const sdpa = backends.map(({ name, p50Us, version = 'PyTorch 2.11.0' }) => ({
    name,
    version,
    latency: { samples: 9, p50Us },
    tflops: 5,
  }));
  const result = create(JobResultSchema, {
    provenance: { device: { name: 'NVIDIA L4', simulated }, protocol: CURRENT_PROTOCOL },
    variants: [{ benchmarks: [{ shape: MEASURED_SHAPE, mode, valid, latency: { samples: 9, p50Us: 1 }, sdpa }] }],
  });
  new HistoryStore(database).recordSdpa({ jobId, jobName: name, endMs: 5, result });
}

test('SDPA has a row per backend and version: its best valid time in the mode, never from the emulator', () => {
  const database = databaseOf(
    { kernelId: 'a', outcome: PASSED, measured: { p50: 4 } },
    { kernelId: 'b', outcome: PASSED, measured: { p50: 10, speedups: [0.9] } },
  );
  keepSdpa(database, {
    backends: [
      { name: 'sdpa/flash', p50Us: 12 },
      { name: 'sdpa/cudnn', p50Us: 9 },
    ],
  });
  keepSdpa(database, {
    backends: [
      { name: 'sdpa/flash', p50Us: 11 },
      { name: 'sdpa/cudnn', p50Us: 8, version: 'PyTorch 2.12.0' },
    ],
  });
  keepSdpa(database, { valid: false, backends: [{ name: 'sdpa/flash', p50Us: 1 }] });
  keepSdpa(database, { simulated: true, backends: [{ name: 'sdpa/flash', p50Us: 2 }] });
  keepSdpa(database, { mode: TimingMode.COLD, backends: [{ name: 'sdpa/flash', p50Us: 3 }] });
  const board = new Leaderboard(database, OPTIONS);
  expect(
    board
      .at(place)
      .map(({ label, sdpaVersion, latency, speedup, sdpaInTurns }) => [
        label,
        sdpaVersion,
        latency?.p50Us,
        speedup,
        sdpaInTurns,
      ]),
  ).toEqual([
    ['a USE_WMMA=1', '', 4, 2, false],
    ['sdpa/cudnn', 'PyTorch 2.12.0', 8, undefined, false],
    ['sdpa/cudnn', 'PyTorch 2.11.0', 9, undefined, false],
    ['b USE_WMMA=1', '', 10, 0.9, true],
    ['sdpa/flash', 'PyTorch 2.11.0', 11, undefined, false],
  ]);
  expect(board.at({ ...place, mode: TimingMode.COLD }).map(kernelAndTime)).toContainEqual(['sdpa/flash', 3]);
});

test('a rival has a row of its own, as each SDPA backend has, and does not change speedups over SDPA', () => {
  const database = databaseOf({ kernelId: 'a', outcome: PASSED, measured: { p50: 4 } });
  keepSdpa(database, {
    backends: [
      { name: 'flash_attention_3', p50Us: 5, version: 'flash-attention 0251105a, build 6f1d3c20' },
      { name: 'sdpa/cudnn', p50Us: 8 },
    ],
  });
  const rows = new Leaderboard(database, OPTIONS).at(place);
  expect(rows.map(({ label, sdpaVersion, speedup }) => [label, sdpaVersion, speedup])).toEqual([
    ['a USE_WMMA=1', '', 2],
    ['flash_attention_3', 'flash-attention 0251105a, build 6f1d3c20', undefined],
    ['sdpa/cudnn', 'PyTorch 2.11.0', undefined],
  ]);
});
