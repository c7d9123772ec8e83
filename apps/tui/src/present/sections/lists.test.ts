import { create } from '@bufbuild/protobuf';
import {
  ChampionSchema,
  DecisionKind,
  FindingKind,
  JobState,
  ExperimentSummarySchema,
  JobSchema,
  Outcome,
  KernelSchema,
  TimingMode,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { failedExperiment, PLAIN } from '../../testing/result-fixtures.ts';
import type { ReportFormat } from '../plain/report-format.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { championsBlocks } from './decisions.ts';
import { gatesText, historyBlocks, jobsBlocks, kernelsBlocks, largestErrorText } from './lists.ts';

const jobsReport = (jobs: Parameters<typeof jobsBlocks>[0], format: ReportFormat, kernel?: string): string[] =>
  plainLines(jobsBlocks(jobs, kernel), format);
const historyReport = (experiments: Parameters<typeof historyBlocks>[0], format: ReportFormat, kernel?: string) =>
  plainLines(historyBlocks(experiments, kernel), format);

const { job } = failedExperiment;

test('the list of jobs has the start of each name, and its state or outcome', () => {
  const queued = create(JobSchema, { ...job, state: JobState.QUEUED, queuePosition: 2, label: 'a'.repeat(60) });
  expect(jobsReport([job, queued], PLAIN)).toEqual([
    '  job       created      kind        state            kernel',
    '  01234567  11-21 11:00  experiment  wrong result     fa_v2_wmma USE_WMMA=1',
    '  01234567  11-21 11:00  experiment  queued, 2 ahead  aaaaaaaaaaaaaaaaaaaaaaaaa…',
  ]);
  expect([
    jobsReport([], PLAIN),
    jobsReport([], PLAIN, 'nosuch'),
    historyReport([], PLAIN),
    historyReport([], PLAIN, 'nosuch'),
  ]).toEqual([
    ['  no jobs'],
    ['  no job of nosuch'],
    ['  no experiment has ended yet'],
    ['  no experiment of nosuch has ended yet'],
  ]);
});

test('an experiment whose first launch hung shows no largest error, rather than "0"', () => {
  const hung = create(ExperimentSummarySchema, { job, cases: 7, passedCases: 0, maxAbsError: 0 });
  const exact = create(ExperimentSummarySchema, { job, cases: 7, passedCases: 7, maxAbsError: 0 });
  expect([hung, exact].map(largestErrorText)).toEqual(['-', '0']);
});

test('in the history and the champions of a cluster, every figure names the pilot that reported it', () => {
  const of = { hostName: 'node7', schedulerJob: '12' };
  const measured = create(ExperimentSummarySchema, { job, p50Us: 10, ...of });
  const [heads, row] = historyReport([measured], { ...PLAIN, width: 160 });
  expect(heads).toMatch(/ on +kernel$/);
  expect(row).toMatch(/ node7, pilot 12 +fa_v2_wmma/);
  const champion = create(ChampionSchema, { job: job.name, label: 'fa_v2_wmma', deviceName: 'NVIDIA L4', ...of });
  const lines = plainLines(championsBlocks([champion], undefined), { ...PLAIN, width: 160 });
  expect(lines[0]).toMatch(/ device +on +shapes /);
  expect(lines[1]).toMatch(/ NVIDIA L4 +node7, pilot 12 /);
});

test('the history marks an emulator time, and shows no number for a missing time', () => {
  const measured = create(ExperimentSummarySchema, {
    job,
    simulated: true,
    passedCases: 7,
    cases: 7,
    p50Us: 81_420,
    hardGates: 4,
    hardGatesPassed: 3,
    gatesPassed: 7,
    gatesNotMeasured: 9,
  });
  const crashed = create(ExperimentSummarySchema, { job: { ...job, label: '' }, cases: 7, gatesFailed: 2 });
  expect(historyReport([measured, crashed], PLAIN)).toEqual([
    '  job       ended        outcome       cases       hot p50     gates  kernel',
    '  01234567  11-21 11:00  wrong result    7/7  81.42 ms sim    3 of 4  fa_v2_wmm…',
    '  01234567  11-21 11:00  wrong result    0/7             -  ✓0 ✗2 –0  fa_v2_wmma',
    '  sim: not a GPU time; hot: launches back to back; gates: hard ones passed, of',
    '  all hard ones; ✓ passed, ✗ failed, – not measured',
  ]);
});

test('the history names the shape of each time if the shapes differ, else once below the list', () => {
  const timed = (shape: string) =>
    create(ExperimentSummarySchema, {
      ...{ job, passedCases: 7, cases: 7, p50Us: 5.8 },
      timings: [{ mode: TimingMode.HOT, shape: parseShape(shape), p50Us: 5.8 }],
    });
  expect(historyReport([timed('1x4x128x64'), timed('1x2x128x64')], PLAIN)).toEqual([
    '  job       outcome       cases  shape        hot p50  gates  kernel',
    '  01234567  wrong result    7/7  1x4x128x64  5.800 us      -  fa_v2_wmma USE_WM…',
    '  01234567  wrong result    7/7  1x2x128x64  5.800 us      -  fa_v2_wmma USE_WM…',
    '  hot: launches back to back',
  ]);
  expect(historyReport([timed('1x4x128x64')], PLAIN).slice(-1)).toEqual([
    '  hot: launches back to back, at 1x4x128x64',
  ]);
});

test("the history has each job's cost and its result against the champion, if it has them", () => {
  const compared = create(ExperimentSummarySchema, {
    job,
    passedCases: 7,
    cases: 7,
    p50Us: 5.76,
    champion: 'flashcore_v9',
    speedupOverChampion: 1.0712,
    costUsd: 0.00321,
  });
  const refused = create(ExperimentSummarySchema, {
    job,
    passedCases: 7,
    cases: 7,
    p50Us: 5.8,
    champion: 'flashcore_v9',
  });
  expect(historyReport([compared, refused], PLAIN).slice(0, 3)).toEqual([
    '  job       outcome       cases   hot p50  vs champion  gates  kernel',
    '  01234567  wrong result    7/7  5.760 us       1.0712      -  fa_v2_wmma USE_W…',
    '  01234567  wrong result    7/7  5.800 us            -      -  fa_v2_wmma USE_W…',
  ]);
});

test('the history shows "-" instead of "yes" for a ranked run without a time, and "no" for a run that is not ranked', () => {
  const ranked = (isRanked: boolean, p50Us?: number) =>
    create(ExperimentSummarySchema, { job, p50Us, ranking: { ranked: isRanked, reasons: [], rulesDigest: '' } });
  const column = historyReport([ranked(true, 5.8), ranked(true), ranked(false)], PLAIN)
    .slice(1, 4)
    .map((row) => /(yes|no|-) +fa_v2/.exec(row)?.[1]);
  expect(column).toEqual(['yes', '-', 'no']);
});

test('the list of kernels has lesson, needs and parameters, and the reason why a kernel is unreadable', () => {
  const kernel = create(KernelSchema, {
    kernelId: 'flashcore_v6',
    title: 'WMMA for Q K^T',
    lesson: 'half of the arithmetic',
    after: 'flashcore_v5',
    minArch: 'sm_80',
    emulated: true,
    limits: [{ require: 'D == 64', because: 'tiles' }],
    parameters: [{ name: 'USE_WMMA', values: [1n, 0n], defaultValue: 1n }],
  });
  const fixture = create(KernelSchema, {
    kernelId: 'deadlock',
    title: 'a barrier in a branch',
    minArch: 'sm_90a',
    expectedFinding: FindingKind.DEADLOCK,
  });
  const broken = create(KernelSchema, { kernelId: 'broken', manifestError: 'kernel.yaml: launches: must be a list' });
  expect(plainLines(kernelsBlocks([kernel, fixture, broken]), PLAIN)).toEqual([
    'flashcore_v6  WMMA for Q K^T',
    '  lesson     half of the arithmetic',
    '  after      flashcore_v5',
    '  needs      sm_80; D == 64',
    '  set        USE_WMMA=1|0 (1)',
    '',
    'deadlock  a barrier in a branch',
    '  needs      sm_90a, no emulator',
    '  must find  deadlock',
    '',
    'broken',
    '  unusable   kernel.yaml: launches: must be a list',
  ]);
});

test('a list that a program reads has uncut names', () => {
  const {
    job: { kernelId },
  } = failedExperiment;
  const label = `${kernelId} ${'A=1 '.repeat(30)}`.trimEnd();
  const experiment = create(ExperimentSummarySchema, { job: { ...job, label } });
  const uncut = { ...PLAIN, uncut: true };
  for (const lines of [jobsReport([create(JobSchema, { ...job, label })], uncut), historyReport([experiment], uncut)])
    expect(lines[1]).toContain(label);
});

test.each([
  ['4 of 4', 4, 4, Outcome.PASSED],
  ['2 of 4, 2 open', 4, 2, Outcome.PASSED],
  ['3 of 4', 4, 3, Outcome.FAILED],
])('the gates of a job read %s', (text, hardGates, hardGatesPassed, outcome) => {
  expect(gatesText(create(ExperimentSummarySchema, { hardGates, hardGatesPassed, job: { outcome } }))).toBe(text);
});

test('an accepted job has no open gate about its documentation', () => {
  const gates = { hardGates: 4, hardGatesPassed: 2, hardGatesToDo: 1, job: { outcome: Outcome.PASSED } };
  const text = (kind: DecisionKind) => gatesText(create(ExperimentSummarySchema, { ...gates, decision: { kind } }));
  expect([
    text(DecisionKind.ACCEPTED),
    text(DecisionKind.UNDONE),
    gatesText(create(ExperimentSummarySchema, gates)),
  ]).toEqual(['3 of 4, 1 open', '2 of 4, 2 open', '2 of 4, 2 open']);
});
