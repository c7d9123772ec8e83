import { create } from '@bufbuild/protobuf';
import { ProfileResultSchema, Verdict, type ProfileResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { table } from '../../present/cells/table.ts';
import { Store } from '../../session/store.ts';
import { initialState } from '../../state/app-state.ts';
import { sampleEvents } from '../../testing/sample-job.ts';
import { latencyView } from '../latency/latency.ts';

const SHOWN = 'jobs/11111111-0000-4000-8000-000000000001';
const PINNED = 'jobs/22222222-0000-4000-8000-000000000002';
const THIRD = 'jobs/33333333-0000-4000-8000-000000000003';
const COMPARED = /against the pinned job/;

/** A store that compares SHOWN with PINNED. THIRD has also been read. */
function comparing(): Store {
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 120, rows: 40, now: 0 }) });
  for (const job of [SHOWN, PINNED, THIRD])
    for (const event of sampleEvents()) store.dispatch({ type: 'job-event', event: { ...event, job } });
  store.dispatch({ type: 'attach', job: SHOWN });
  store.dispatch({ type: 'pin', job: PINNED });
  store.dispatch({ type: 'compare', on: true });
  store.dispatch({ type: 'show', view: 'latency' });
  return store;
}

function latencyPane({ state, log, search }: Store): { title: string; text: string } {
  const { title, body } = latencyView({ state, log, search }, { width: 100, height: 30 });
  return { title, text: body.map(rowText).join('\n') };
}

test('a comparison applies only to its two jobs: another job shows its own latency', () => {
  const store = comparing();
  expect(latencyPane(store).title).toMatch(COMPARED);
  for (const job of [THIRD, PINNED]) {
    store.dispatch({ type: 'attach', job });
    const { title, text } = latencyPane(store);
    expect(title).not.toMatch(COMPARED);
    expect(text).toMatch(/p50/);
    expect(text).not.toMatch(/no shape in common|not compared/);
  }
});

test('where one job was not timed, the page of times says which', () => {
  const { state, log, search } = comparing();
  const page = (untimed: readonly string[]): string => {
    const views = { ...state.views };
    for (const job of untimed) {
      const view = views[job]!;
      views[job] = { ...view, variants: view.variants.map((variant) => ({ ...variant, benchmarks: [] })) };
    }
    const rows = latencyView({ state: { ...state, views }, log, search }, { width: 100, height: 30 }).body.map(rowText);
    return rows.slice(3).join('\n').trim();
  };
  expect([[PINNED], [SHOWN], [PINNED, SHOWN]].map(page)).toEqual([
    'The pinned job was not timed. d shows the other differences.',
    'The shown job was not timed. d shows the other differences.',
    'Neither job was timed. d shows the other differences.',
  ]);
});

test.each([76, 78, 116])('at %i cells both medians are shown, although emulator times are not compared', (width) => {
  const { state, log, search } = comparing();
  const text = latencyView({ state, log, search }, { width, height: 30 }).body.map(rowText).join('\n');
  expect(text).toMatch(/pinned p50 +shown p50[^]* (\S+ [mu]s) +\1 .*not compared/);
});

test('below emulator times, which are not compared, are the figures of the builds instead of two histograms', () => {
  const { text } = latencyPane(comparing());
  expect(text).toMatch(/not compared: [^]*Build[^]*registers\/thread/);
  expect(text).not.toMatch(/above: shown/);
});

test('the first line of two emulator jobs says which needs less of what, and that these are no GPU times', () => {
  const { state, log, search } = comparing();
  const metrics = (instructions: number, conflicts: number, wavefronts: number) =>
    create(ProfileResultSchema, {
      verdict: Verdict.PASS,
      shape: parseShape('1x2x64x64'),
      metrics: [
        { name: 'ptx_instructions', value: instructions, unit: 'instructions' },
        { name: 'smem_bank_conflict_percent', value: conflicts, unit: '%' },
        { name: 'smem_wavefronts_per_request', value: wavefronts, unit: 'wavefronts' },
      ],
    });
  const firstLine = (pinned: ProfileResult, shown: ProfileResult): string => {
    const views = { ...state.views };
    for (const [job, profile] of [[PINNED, pinned] as const, [SHOWN, shown] as const])
      views[job] = { ...views[job]!, variants: views[job]!.variants.map((variant) => ({ ...variant, profile })) };
    const { body } = latencyView({ state: { ...state, views }, log, search }, { width: 200, height: 30 });
    return body.map(rowText).find((row) => row.startsWith('shown needs')) ?? '';
  };
  expect(firstLine(metrics(1000, 1, 1.5), metrics(115, 75.1, 18))).toBe(
    'shown needs 89 % fewer instructions, but 12 times the shared-memory wavefronts a request and 74 points more bank conflicts (counts of the emulator at 1x2x64x64, not GPU times)',
  );
  expect(firstLine(metrics(1000, 1, 1.5), metrics(1500, 1, 1.5))).toMatch(/^shown needs 50 % more instructions \(/);
  expect(firstLine(metrics(1000, 1, 1.5), metrics(1000, 1, 1.5))).toBe('');
});

test('figures keep all their digits, even if names and units do not fit', () => {
  const figures = [{ name: 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum', value: '45,620,000' }];
  const { rows } = table(
    [
      { title: 'figure', cell: ({ name }) => name, shrinkTo: 24 },
      { title: 'pinned', align: 'right', cell: ({ value }) => value },
      { title: 'unit', drop: 1, cell: () => 'wavefronts' },
    ],
    figures,
    30,
  );
  expect(rows.map(rowText)).toEqual(['l1tex__data_bank_…  45,620,000']);
});

test('a shown job that was pinned is not compared with itself', () => {
  const store = comparing();
  store.dispatch({ type: 'pin', job: SHOWN });
  expect(latencyPane(store).title).not.toMatch(COMPARED);
});

test('starting a job, as a save does, ends the comparison', () => {
  const store = comparing();
  const job = 'jobs/44444444-0000-4000-8000-000000000004';
  store.dispatch({ type: 'job-event', event: { ...sampleEvents()[0]!, job } });
  store.dispatch({ type: 'attach', job });
  expect(latencyPane(store).title).not.toMatch(COMPARED);
  expect(latencyPane(store).text).not.toMatch(/no shape in common/);
});

test('if one of the two jobs has no results, the page says which, and how it ended', () => {
  const store = comparing();
  const queued = sampleEvents()[0]!;
  const NEW = 'jobs/44444444-0000-4000-8000-000000000004';
  store.dispatch({ type: 'job-event', event: { ...queued, job: NEW } });
  store.dispatch({ type: 'attach', job: NEW });
  store.dispatch({ type: 'compare', on: true });
  expect(latencyPane(store).text).toMatch(/^The shown job has no results yet\. b pins another job/);
  store.dispatch({ type: 'attach', job: SHOWN });
  store.dispatch({ type: 'pin', job: NEW });
  store.dispatch({ type: 'compare', on: true });
  expect(latencyPane(store).text).toMatch(/^The pinned job has no results yet\./);
});
