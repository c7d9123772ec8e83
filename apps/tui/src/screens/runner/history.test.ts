import { create } from '@bufbuild/protobuf';
import { ExperimentSummarySchema } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { failedExperiment } from '../../testing/result-fixtures.ts';
import { historyPane } from './history.ts';

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

test('a shape that all times share is in the title; otherwise it has a column, which is never dropped', () => {
  expect(shownFor('1x4x128x64', '', '1x4x128x64')[0]).toBe('6 History  p50 at 1x4x128x64');
  expect(shownFor('1x4x128x64', '2x8x512x64')).toEqual([
    ...['6 History', 'id', 'experiment', 'cases', 'shape', 'p50 hot', 'at, UTC'],
  ]);
  expect(shownFor('1x4x128x64', '16x16x16384x128c')).toEqual([
    ...['6 History', 'id', 'experiment', 'cases', 'shape', 'p50 hot', 'at, UTC'],
  ]);
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
