import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ChampionSchema,
  DecisionKind,
  DecisionSchema,
  ExperimentSummarySchema,
  JobKind,
  JobSchema,
  JobState,
  KernelSchema,
  Outcome,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { failedExperiment } from '../../testing/result-fixtures.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { historyPane } from './history.ts';
import { jobsView } from './jobs.ts';
import { kernelsView } from './kernels.ts';

/** Title and header of the history if its experiments timed these shapes. */
function shownFor(...shapes: readonly string[]): string[] {
  const experiments = shapes.map((shape) =>
    create(ExperimentSummarySchema, {
      ...{ job: failedExperiment.job, cases: 7, passedCases: 7, p50Us: 3_273, simulated: true },
      timings: shape === '' ? [] : [{ shape: parseShape(shape), p50Us: 3_273 }],
    }),
  );
  const runner = { label: 'host:1', embedded: false };
  const { title, body } = historyPane(
    { ...initialState({ runner, columns: 80, rows: 24, now: 0 }), experiments },
    { width: 76, height: 18 },
  );
  return [
    title,
    ...rowText(body[0] ?? [])
      .trim()
      .split(/ {2,}/),
  ];
}

test('without a connection, the history does not say that no job has ended', () => {
  const state = initialState({ runner: { label: 'host:1', embedded: false }, columns: 80, rows: 24, now: 0 });
  const shown = (connection: 'connecting' | 'connected'): string =>
    historyPane({ ...state, connection }, { width: 76, height: 18 })
      .body.map(rowText)
      .join(' ');
  expect(shown('connecting')).toMatch(/^Connecting to host:1/);
  expect(shown('connected')).toMatch(/^No job has ended on this runner yet/);
});

test('a shape that all times share is in the title; otherwise it has a column, which is never dropped', () => {
  expect(shownFor('1x4x128x64', '', '1x4x128x64')[0]).toBe('6 History  p50 of experiments at 1x4x128x64');
  expect(shownFor('1x4x128x64', '2x8x512x64')).toEqual([...['6 History', 'id', 'job', 'shape', 'p50 hot', 'sent']]);
  expect(shownFor('1x4x128x64', '16x16x16384x128c')).toEqual([
    ...['6 History', 'id', 'job', 'shape', 'p50 hot', 'sent'],
  ]);
});

test('lists of view 6 say why each job failed, and which one is pinned', () => {
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 200, rows: 40, now: 0 }),
    jobs: [failedExperiment.job],
    experiments: [create(ExperimentSummarySchema, { job: failedExperiment.job })],
  };
  const pinned = { ...state, ui: { ...state.ui, view: 'jobs' as const, pinned: failedExperiment.job.name } };
  const { body, remark } = historyPane(pinned, { width: 150, height: 10 });
  expect(body.slice(0, 2).map(rowText).join('\n')).toMatch(/why not passed[^]*P .*[a-z]/);
  expect(remark).toContain(', P pinned');
  const list = jobsView({ state: pinned, log: new LogBuffer(1), search: undefined }, { width: 76, height: 10 });
  expect(list.body.slice(0, 2).map(rowText).join('\n')).toMatch(/state[^]*wrong result: 1 /);
});

test('the history has the verifications of the list too, with their kind, duration and reason', () => {
  const [verified, run] = [
    create(JobSchema, {
      ...failedExperiment.job,
      name: 'jobs/verified',
      kind: JobKind.VERIFY,
      outcome: Outcome.COMPILE_FAILED,
      summary: 'compile failed: k.cu:77:29 no member y2',
      createTime: timestampFromMs(2_000_000),
      startTime: timestampFromMs(2_000_000),
      endTime: timestampFromMs(2_075_000),
    }),
    create(JobSchema, { ...failedExperiment.job, name: 'jobs/run', createTime: timestampFromMs(1_000_000) }),
  ];
  const running = create(JobSchema, { ...verified, name: 'jobs/running', state: JobState.RUNNING });
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 200, rows: 40, now: 0 }),
    jobs: [running, verified, run],
    experiments: [create(ExperimentSummarySchema, { job: run })],
  };
  const rows = (width: number): string[] => historyPane(state, { width, height: 8 }).body.slice(1, 4).map(rowText);
  expect(rows(150).map((row) => row.trim().replace(/ {2,}/g, '  '))).toEqual([
    expect.stringMatching(/verified .*  verify  1 min 15 s  .*compile failed: k\.cu:77:29 no mem/) as string,
    expect.stringMatching(/run .*  experiment  /) as string,
    '',
  ]);
  expect(rows(76)[0]).toMatch(/verified .*compile failed: k\.cu/);
});

test('the preview gives the reasons why a job is not ranked once', () => {
  const reasons = ['plan explore accepts nothing'];
  const experiment = create(ExperimentSummarySchema, {
    job: { ...failedExperiment.job, summary: `1 of 1 case correct; not ranked: ${reasons[0]}` },
    ranking: { ranked: false, reasons },
  });
  const runner = { label: 'host:1', embedded: false };
  const { body } = historyPane(
    { ...initialState({ runner, columns: 80, rows: 24, now: 0 }), experiments: [experiment] },
    { width: 76, height: 18 },
  );
  expect(
    body
      .map(rowText)
      .join('\n')
      .match(/accepts nothing/g)?.length,
  ).toBe(1);
});

test('a job that ended while the user was away is marked in both lists of view 6', () => {
  const job = create(JobSchema, { ...failedExperiment.job, name: 'jobs/1', endTime: timestampFromMs(2000) });
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: 3000 }),
    jobs: [job],
    experiments: [create(ExperimentSummarySchema, { job })],
    leftAt: 1000,
  };
  const snapshot = {
    state: { ...state, ui: { ...state.ui, view: 'jobs' as const } },
    log: new LogBuffer(1),
    search: undefined,
  };
  const size = { width: 110, height: 20 };
  for (const { body, remark } of [jobsView(snapshot, size), historyPane(state, size)]) {
    expect(rowText(body[1] ?? [])).toContain('• ');
    expect(`${remark}\n${body.map(rowText).join('\n')}`).toMatch(/^• ended since 00:00 and not shown yet$/m);
  }
});

test('champions are marked in the lists of view 6 and in view 7', () => {
  const job = create(JobSchema, { ...failedExperiment.job, name: 'jobs/1', outcome: Outcome.PASSED });
  const other = create(JobSchema, { ...job, name: 'jobs/2' });
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: 0 }),
    jobs: [other, job],
    experiments: [other, job].map((of) => create(ExperimentSummarySchema, { job: of })),
    champions: [create(ChampionSchema, { job: 'jobs/1', decision: { time: timestampFromMs((9 * 60 + 4) * 60_000) } })],
    kernels: [create(KernelSchema, { kernelId: job.kernelId })],
    hasKernels: true,
  };
  const snapshot = {
    state: { ...state, ui: { ...state.ui, view: 'jobs' as const } },
    log: new LogBuffer(1),
    search: undefined,
  };
  const size = { width: 110, height: 20 };
  const panes = [jobsView(snapshot, size), historyPane(state, size)];
  for (const { body, remark } of panes) {
    expect(body.slice(1, 3).map((row) => rowText(row).includes('★ '))).toEqual([false, true]);
    expect(`${remark}\n${body.map(rowText).join('\n')}`).toMatch(/^★ champion$/m);
  }
  expect(
    kernelsView(snapshot, size)
      .body.map(rowText)
      .join('\n')
      .match(/passed, ★ champion since 09:04/g)?.length,
  ).toBe(1);
});

test('shapes of other problems have a column for each axis that differs', () => {
  const decode = (heads: number): string => `B=32,H=${heads},Hkv=8,Skv=8192,D=128`;
  expect(shownFor(decode(32), decode(64))).toEqual([
    ...[
      '6 History  p50 of experiments at B=32, D=128, Hkv=8, Skv=8192',
      'id',
      'job',
      'cases',
      'H',
      'p50 hot',
      'sent',
      'why not passed',
    ],
  ]);
});

test('lists count the hard gates that pass by now: the documentation passes once NOTES.md is filled in', () => {
  const job = create(JobSchema, { ...failedExperiment.job, outcome: Outcome.PASSED, codeDigest: 'ran' });
  const counts = { hardGates: 4, hardGatesPassed: 2, hardGatesToDo: 1 };
  const shown = (notes: string): string[] => {
    const start = initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: 0 });
    const state = {
      ...start,
      jobs: [job],
      experiments: [create(ExperimentSummarySchema, { job, ...counts })],
      kernels: [create(KernelSchema, { kernelId: job.kernelId, codeDigest: 'ran', notes })],
      decisions: [
        create(DecisionSchema, { number: 1n, kind: DecisionKind.ACCEPTED, job: job.name }),
        create(DecisionSchema, { number: 2n, kind: DecisionKind.UNDONE, job: job.name, undoes: 1n }),
      ],
      ui: { ...start.ui, view: 'jobs' as const },
    };
    const size = { width: 116, height: 30 };
    const context = { log: new LogBuffer(1), search: undefined };
    const { body: jobs } = jobsView({ state, ...context }, size);
    const { body: kernels } = kernelsView({ state, ...context }, { ...size, width: 240 });
    return [jobs, historyPane(state, size).body, kernels].map((body) =>
      [
        ...body
          .map(rowText)
          .join('\n')
          .matchAll(/\d of 4(?:, \d [a-z]+(?: [a-z]+)?)*/g),
      ].join('; '),
    );
  };
  expect(shown('## What it changes, and why\nwider tiles')).toEqual([
    '3 of 4, 1 not measured',
    '3 of 4, 1 open; 3 of 4, 1 not measured',
    '3 of 4, 1 open; 3 of 4, 1 not measured',
  ]);
  expect(shown('')).toEqual([
    '2 of 4, 1 not measured, 1 to do',
    '2 of 4, 2 open; 2 of 4, 1 not measured, 1 to do',
    '2 of 4, 2 open; 2 of 4, 1 not measured, 1 to do',
  ]);
});
