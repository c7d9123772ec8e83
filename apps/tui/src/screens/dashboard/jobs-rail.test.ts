import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobSchema, JobState, Outcome } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { jobViewOf } from '../../state/job-view.ts';
import { headerRow } from '../chrome/header.ts';
import type { View } from '../pane/view.ts';
import { jobsView } from '../runner/jobs.ts';
import { jobsRail } from './jobs-rail.ts';

/** The rail's rows at 120x40, where it has 34 cells and 5 rows. */
function railOf(jobs: readonly MessageInitShape<typeof JobSchema>[], attached: string): string[] {
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: 60_000 }),
    jobs: jobs.map((job) =>
      create(JobSchema, { startTime: timestampFromMs(0), endTime: timestampFromMs(51_000), ...job }),
    ),
    attached,
  };
  const log = new LogBuffer(1);
  return jobsRail({ state, log, search: undefined }, { width: 34, height: 5 }).body.map((row) =>
    rowText(row).trimEnd(),
  );
}

test('running jobs stay in the rail, however many there are, along with the shown job', () => {
  const running = ['a', 'b', 'c', 'd'].map((label) => ({ name: `jobs/${label}`, label, state: JobState.RUNNING }));
  const ended = Array.from({ length: 30 }, (_, index) => ({
    name: `jobs/old${index}`,
    label: `old${index}`,
    state: JobState.ENDED,
    outcome: Outcome.PASSED,
  }));
  const rail = railOf([...running, ...ended], 'jobs/old25').join('\n');
  for (const label of ['a', 'b', 'c', 'd', 'old25']) expect(rail).toMatch(new RegExp(` ${label} `));
});

test('if room is short, the time and then a pass are left out, and a name is cut to the cells that are left', () => {
  const rail = (label: string) =>
    railOf([{ name: 'jobs/a612', label, state: JobState.ENDED, outcome: Outcome.PASSED }], 'jobs/a612');
  expect(rail('flashcore_v6')).toEqual(['▸ ✓ a612 flashcore_v6  passed 51 s']);
  expect(rail('flashcore_v6_wmma')).toEqual(['▸ ✓ a612 flashcore_v6_wmma  passed']);
  expect(rail('bank_conflict_32way')).toEqual(['▸ ✓ a612 bank_conflict_32way']);
  expect(rail('flashcore_v6 USE_WMMA=1 STAGES=3')).toEqual(['▸ ✓ a612 flashcore_v6 USE_… passed']);
  const failed = { name: 'jobs/a612', label: 'my_attn', state: JobState.ENDED, outcome: Outcome.WRONG_RESULT };
  expect(railOf([failed], 'jobs/a612')).toEqual(['▸ ✗ a612 my_attn wrong result 51 s']);
  // A circle stands for cancelled jobs too, and nobody knows how long an interrupted job took.
  const cut = { ...failed, label: 'my_attn PAD=4 MIN_CTAS=8', outcome: Outcome.INTERRUPTED };
  expect(railOf([cut], 'jobs/a612')).toEqual(['▸ ○ a612 my_attn PAD=… interrupted']);
});

test('the pinned job has its mark in the rail, in view 6 and in the header, also while it is on the screen', () => {
  const job = { name: 'jobs/a612', label: 'flashcore_v6', state: JobState.ENDED, outcome: Outcome.PASSED };
  const initial = initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: 60_000 });
  const state = {
    ...initial,
    ui: { ...initial.ui, pinned: job.name },
    jobs: [create(JobSchema, job)],
    attached: job.name,
    views: { [job.name]: jobViewOf(create(JobSchema, job)) },
  };
  const content = { state, log: new LogBuffer(1), search: undefined };
  const rowsOf = (view: View): string => view(content, { width: 80, height: 12 }).body.map(rowText).join('\n');
  expect(rowsOf(jobsRail)).toContain('▸ ✓ a612 P flashcore_v6');
  expect(rowsOf(jobsView)).toContain('✓ * P flashcore_v6');
  expect(rowText(headerRow(state, 80))).toContain('P pinned');
  expect(rowText(headerRow({ ...state, ui: initial.ui }, 80))).not.toContain('P pinned');
});

test('arrows mark the places where the rail leaves jobs out', () => {
  const ended = Array.from({ length: 9 }, (_, index) => ({
    ...{ name: `jobs/old${index}`, label: `old${index}`, state: JobState.ENDED, outcome: Outcome.PASSED },
  }));
  const marks = (attached: string) => railOf(ended, attached).map((row) => row.slice(0, 1));
  expect(marks('jobs/old0')).toEqual(['▸', ' ', ' ', ' ', '▾']);
  expect(marks('jobs/old4')).toEqual(['↑', ' ', '▸', ' ', '▾']);
  expect(marks('jobs/old8')).toEqual(['↑', ' ', ' ', ' ', '▸']);
});
