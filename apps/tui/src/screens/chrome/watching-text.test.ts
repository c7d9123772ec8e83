import { Outcome } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { measuredEvents, type MeasuredName } from '../../testing/measured-job.ts';
import { rowText } from '../../present/cells/row.ts';
import { messageRows, watchingText } from './message.ts';
import { initialState, type AppState } from '../../state/app-state.ts';
import { reduce } from '../../state/app-reducer.ts';
import type { JobView } from '../../state/job-view.ts';
import { saveDifference } from '../../state/save-difference.ts';

const START = initialState({ runner: { label: 'host:1', embedded: false }, columns: 80, rows: 24, now: 0 });
const withJob = (state: AppState, name: MeasuredName): AppState =>
  measuredEvents(name).reduce((before, event) => reduce(before, { type: 'job-event', event }), state);
const nameOf = (name: MeasuredName): string => measuredEvents(name)[0]!.job;
const both = withJob(withJob(START, 'flashcore_v9'), 'flashcore_v10');
const view = (name: MeasuredName) => both.views[nameOf(name)]!;

test('a save is described by the resources that differ and the first timing that both jobs measured', () => {
  expect(saveDifference(view('flashcore_v9'), view('flashcore_v10'))).toMatch(/^(regs \d+→\d+, )?.*p50 [+-]\d+\.\d %$/);
  expect(saveDifference(view('flashcore_v9'), view('flashcore_v9'))).toBe('2x8x512x64 hot p50 0.0 % (within noise)');
});

test('emulator times of two saves are not compared, as in view 3', () => {
  const simulated = (of: MeasuredName): JobView => ({
    ...view(of),
    variants: view(of).variants.map((variant) => ({
      ...variant,
      benchmarks: variant.benchmarks.map((benchmark) => ({ ...benchmark, simulated: true })),
    })),
  });
  expect(saveDifference(simulated('flashcore_v9'), simulated('flashcore_v10'))).not.toContain('p50');
  expect(saveDifference(simulated('flashcore_v9'), simulated('flashcore_v9'))).toBe('');
});

test('a watched folder shows the time of its last save and the difference from the save before', () => {
  const watching = reduce(both, { type: 'watching', folder: '/k' });
  expect(watchingText(watching, watching.watching!)).toBe('watching /k: every save runs; W stops');
  const saved = (
    [
      { type: 'version-started', job: nameOf('flashcore_v9') },
      { type: 'saved' },
      { type: 'version-started', job: nameOf('flashcore_v10') },
      { type: 'tick', now: 12_300 },
    ] as const
  ).reduce(reduce, watching);
  expect(watchingText(saved, saved.watching!)).toMatch(
    /^watching \/k: last save 12 s ago, changed since the previous save: .*hot p50 [+-]\d+\.\d %; W stops$/,
  );
});

test('a cancelled save is not described as a change of the outcome', () => {
  const cancelled = { ...view('flashcore_v10'), outcome: Outcome.CANCELLED };
  expect(saveDifference(view('flashcore_v9'), cancelled)).not.toContain('cancelled');
  expect(saveDifference(view('flashcore_v9'), { ...cancelled, outcome: Outcome.CRASHED })).toMatch(/^\w+→crashed, /);
});

test("if a watched folder's path does not fit into the row, only the folder's name is shown", () => {
  const folder = `/home/ada/${'a/'.repeat(30)}my_kernel`;
  const state = reduce(START, { type: 'watching', folder });
  expect(messageRows(state, 80).map((row) => rowText(row).trim())).toEqual([
    'watching my_kernel: every save runs; W stops',
  ]);
});

test('a question is shown in full, as it names what it is about', () => {
  const question = 'Cancel 2 marked: mynorm (4b8fd7e0), mynorm (acea23bb), flashcore_v8 (93bde526)?';
  const overlay = { kind: 'confirm' as const, question, commandId: 'cancel', subjects: [] };
  const rows = messageRows({ ...START, ui: { ...START.ui, overlay } }, 80).map(rowText);
  expect(rows.join(' ').replaceAll(/\s+/g, ' ').trim()).toBe(`${question} y yes any key no`);
});
