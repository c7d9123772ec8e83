import { create } from '@bufbuild/protobuf';
import { GetLeaderboardResponseSchema, JobState, Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { insideOf } from '../present/cells/frame.ts';
import { rowText, rowWidth } from '../present/cells/row.ts';
import { VIEWS, initialState, type ViewId } from '../state/app-state.ts';
import { Store } from '../session/store.ts';
import { fakeRunner } from '../testing/fake-runner.ts';
import { measuredEvents } from '../testing/measured-job.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from '../testing/sample-job.ts';
import { leaderboardPane } from './runner/leaderboard-pane.ts';
import { latencyView } from './latency/latency.ts';
import { focusedPane, hasFocus, layoutOf, type PaneColumn } from './chrome/layout.ts';
import { messageRows, screenOf } from './chrome/message.ts';
import { PANE_FUNCTIONS } from './views.ts';
import { headRows } from './chrome/header.ts';
import { footerRows } from './chrome/hints.ts';

async function loadedStore(): Promise<Store> {
  const store = new Store({
    state: initialState({
      runner: { label: 'gpu01.example.com:50051', embedded: false },
      columns: 80,
      rows: 24,
      now: SAMPLE_START_MS + 20_000,
    }),
  });
  const runner = fakeRunner();
  const { host } = await runner.getHost();
  if (host !== undefined) store.dispatch({ type: 'host', host });
  store.dispatch({ type: 'jobs', jobs: (await runner.listJobs()).jobs });
  store.dispatch({ type: 'experiments', experiments: (await runner.listExperiments()).experiments });
  store.dispatch({ type: 'kernels', kernels: (await runner.listKernels({ includeFaulty: true })).kernels });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  for (const event of sampleEvents()) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'next-variant' });
  store.dispatch({ type: 'next-variant' });
  return store;
}

test('the note about omitted entries is shown under the leaderboard at any height', async () => {
  const store = await loadedStore();
  const leftOut =
    "Left out: 3 measured by flashcore-protocol 2; only results by flashcore-protocol 3, this runner's, compare with each other";
  const entries = Array.from({ length: 20 }, (_, index) => ({
    label: `kernel ${index}`,
    latency: { p50Us: 10 + index },
  }));
  store.dispatch({ type: 'leaderboard', leaderboard: create(GetLeaderboardResponseSchema, { entries, leftOut }) });
  for (const height of [5, 12, 40]) {
    const { body } = leaderboardPane(store.state, { width: 76, height });
    expect(body.length).toBeLessThanOrEqual(height);
    expect(
      body
        .slice(-2)
        .map((row) => rowText(row).trimEnd())
        .join(' '),
    ).toBe(`${leftOut}.`);
  }
});

const SIZES = [60, 61, 70, 79, 80, 99, 100, 120, 137, 159, 160, 200, 260].flatMap((columns) =>
  [16, 24, 30, 49, 50, 60].map((rows) => [columns, rows] as const),
);

test('on a wide screen the chosen view has more room than on a screen of 120x40', () => {
  const has = { hasFinding: false, hasNoSamples: false, hasListing: false, hasGates: true };
  const screen = { zoomed: false, inRail: false, jobCount: 9, ...has };
  const roomOf = (view: ViewId, columns: number, rows: number, hasLatency: boolean): readonly [number, number] => {
    const { width, height } = focusedPane({ ...screen, view, columns, rows, hasLatency });
    return [width, height];
  };
  for (const view of VIEWS.filter((each) => each !== 'run'))
    for (const hasLatency of [true, false]) {
      const [width, height] = roomOf(view, 200, 60, hasLatency);
      const [least, low] = roomOf(view, 120, 40, hasLatency);
      expect([view, width > least, height > low]).toEqual([view, true, true]);
    }
});

test('a job that takes no samples leaves the rows of the latency pane to the log', () => {
  const screen = { columns: 120, rows: 40, view: 'run', zoomed: false, inRail: false, jobCount: 9 } as const;
  const panes = (hasNoSamples: boolean) =>
    layoutOf({ ...screen, hasFinding: false, hasLatency: false, hasListing: false, hasGates: true, hasNoSamples })
      .flat(2)
      .map(({ id, height }) => [id, height]);
  const rows = (hasNoSamples: boolean): Record<string, number> => Object.fromEntries(panes(hasNoSamples)) as never;
  const [usual, none] = [rows(false), rows(true)];
  expect(none).toEqual({ ...without(usual, 'latency-live'), log: usual['log']! + usual['latency-live']! });
});

const without = (all: Record<string, number>, key: string): Record<string, number> =>
  Object.fromEntries(Object.entries(all).filter(([name]) => name !== key));

test('a job without gates leaves the rows of their pane to the list of jobs, as many as it needs', () => {
  const has = { hasFinding: false, hasLatency: false, hasListing: false, hasNoSamples: true };
  const screen = { columns: 120, rows: 40, view: 'run', zoomed: false, inRail: false, ...has } as const;
  const rail = (hasGates: boolean, jobCount: number): (number | undefined)[] =>
    ['jobs-rail', 'gates-rail', 'build-rail'].map(
      (id) =>
        layoutOf({ ...screen, hasGates, jobCount })
          .flat(2)
          .find((pane) => pane.id === id)?.height,
    );
  expect([rail(true, 11), rail(false, 3), rail(false, 11), rail(false, 99)]).toEqual([
    [7, 25, 4],
    [7, 25, 4],
    [13, 19, 4],
    [27, 5, 4],
  ]);
});

test('panes exactly fill the screen at every size and for every view', () => {
  for (const [columns, rows] of SIZES) {
    for (const view of VIEWS) {
      const bands = layoutOf({
        columns,
        rows,
        view,
        zoomed: false,
        inRail: false,
        hasFinding: rows % 2 === 0,
        hasLatency: columns % 2 === 0,
        hasNoSamples: columns % 3 === 0,
        hasListing: view === 'profile' && rows % 3 === 0,
        hasGates: rows % 2 === 1,
        jobCount: columns,
      });
      const heightOf = (column: PaneColumn): number => column.reduce((sum, { height }) => sum + height, 0);
      expect(bands.reduce((sum, band) => sum + heightOf(band[0] ?? []), 0)).toBe(rows - 4);
      for (const band of bands) {
        expect(new Set(band.map(heightOf)).size).toBe(1);
        expect(band.every((column) => column.every(({ width }) => width === column[0]?.width))).toBe(true);
        expect(band.reduce((sum, column) => sum + (column[0]?.width ?? 0), 0)).toBe(columns);
      }
      const focused = bands.flat(2).filter(({ id }) => hasFocus(id, { view, inRail: false }));
      expect(focused.length, `${view} at ${columns}x${rows}`).toBe(1);
      expect(new Set(bands.flat(2).map(({ id }) => id)).size).toBe(bands.flat(2).length);
    }
  }
});

test('at any size, no view returns rows that are too wide or too many, and table heads are never cut', async () => {
  const store = await loadedStore();
  for (const [columns, rows] of SIZES) {
    store.dispatch({ type: 'resize', columns, rows });
    for (const view of VIEWS) {
      store.dispatch({ type: 'show', view });
      const { state } = store;
      for (const pane of layoutOf(screenOf(state)).flat(2)) {
        const size = insideOf(pane);
        const { body } = PANE_FUNCTIONS[pane.id]({ state, log: store.log, search: undefined }, size);
        const place = `${pane.id} at ${columns}x${rows}`;
        expect(body.filter((row) => rowWidth(row) > size.width).map(rowText), place).toEqual([]);
        expect(body.length, place).toBeLessThanOrEqual(size.height);
        expect(
          body
            .flat()
            .filter(
              ({ text, role }) =>
                role === 'dim' &&
                /^ *(case|verdict|largest error|max err|mean|p50|p99|gate|value|target|regs|SMEM|job|state|kernel)…/.test(
                  text,
                ),
            ),
          place,
        ).toEqual([]);
      }
      for (const row of [...headRows(state, columns), ...footerRows(state, columns)])
        expect(rowWidth(row)).toBe(columns);
    }
  }
});

test('a comparison fits every size and never treats emulator times as GPU times', async () => {
  const store = await loadedStore();
  const other = 'jobs/44444444-0000-4000-8000-000000000006';
  for (const event of sampleEvents()) store.dispatch({ type: 'job-event', event: { ...event, job: other } });
  store.dispatch({ type: 'pin', job: other });
  store.dispatch({ type: 'compare', on: true });
  for (const [columns, rows] of SIZES) {
    store.dispatch({ type: 'resize', columns, rows });
    store.dispatch({ type: 'show', view: 'latency' });
    const pane = layoutOf(screenOf(store.state))
      .flat(2)
      .find(({ id }) => id === 'latency');
    if (pane === undefined) throw new Error('no latency pane');
    const size = insideOf(pane);
    const { body, badge } = latencyView({ state: store.state, log: store.log, search: undefined }, size);
    expect(badge).toBe('SIMULATED');
    expect(body.filter((row) => rowWidth(row) > size.width).map(rowText)).toEqual([]);
    expect(body.length).toBeLessThanOrEqual(size.height);
    expect(body.map(rowText).join('\n')).toMatch(/not compared|simulated: emulator/);
    expect(body.map(rowText).join('\n')).not.toMatch(/faster|slower/);
  }
});

test('the header shows runner, connection, device, job and phase in every state', async () => {
  const store = await loadedStore();
  const header = (): string => rowText(headRows(store.state, 80)[0] ?? []);
  store.dispatch({ type: 'connection', connection: 'connected' });
  expect(header()).toMatch(/● gpu01\.example… +(emulator +)?SIMULATED +flashcore_v6 USE_WMMA=1 +✗ wrong result/);
  store.dispatch({ type: 'connection', connection: 'reconnecting' });
  expect(header()).toMatch(/○ reconnecting/);
  const events = sampleEvents();
  const fresh = new Store({ state: { ...store.state, views: {}, attached: SAMPLE_JOB } });
  for (const event of events.slice(0, 20)) fresh.dispatch({ type: 'job-event', event });
  expect(rowText(headRows(fresh.state, 120)[0] ?? [])).toMatch(/verify .* \d+ %/);
});

test('the header says "source changed since" in full before it names the runner, and the runner before the device', async () => {
  const store = await loadedStore();
  store.dispatch({ type: 'connection', connection: 'connected' });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  const kernelId = store.state.views[SAMPLE_JOB]?.kernelId ?? '';
  const view = { ...store.state.views[SAMPLE_JOB]!, codeDigest: 'ran' };
  const kernels = store.state.kernels.map((kernel) =>
    kernel.kernelId === kernelId ? { ...kernel, codeDigest: 'now' } : kernel,
  );
  const changed = { ...store.state, kernels, views: { ...store.state.views, [SAMPLE_JOB]: view } };
  const header = (columns: number): string => rowText(headRows(changed, columns)[0] ?? []);
  expect(header(90)).toMatch(/^ (fa-tui {2})?● .*flashcore_v6 .*✗ wrong result.* Δ source changed since/);
  expect(header(90)).not.toContain('gpu01');
  expect(header(120)).toMatch(/● gpu01\.example\S* .*Δ source changed since/);
  expect(header(120)).not.toContain('…');
});

test('without the rail, the tab of the jobs shows the number of running jobs that are not on the screen', async () => {
  const store = await loadedStore();
  const tabs = (columns: number): string => {
    store.dispatch({ type: 'resize', columns, rows: 40 });
    return rowText(headRows(store.state, columns)[1] ?? []);
  };
  const jobs = store.state.jobs.map((job) => (job.name === SAMPLE_JOB ? { ...job, state: JobState.RUNNING } : job));
  store.dispatch({ type: 'jobs', jobs });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  expect(tabs(80)).not.toContain('●');
  store.dispatch({ type: 'attach', job: 'jobs/11111111-0000-4000-8000-000000000003' });
  expect(tabs(80)).toContain('6 Jobs ●1 7 Kernels');
  expect(tabs(120)).not.toContain('6 Jobs ●1');
});

test('a long message wraps and shrinks the panes', async () => {
  const store = await loadedStore();
  store.dispatch({
    type: 'notice',
    tone: 'bad',
    text: 'No runner at unix:/tmp/flashcore-0/8a6a0676a260e343.sock, nothing answers there; start one with: npx nx serve runner',
  });
  const rows = messageRows(store.state, 80).map(rowText);
  expect(rows.map((row) => row.trim())).toEqual([
    'No runner at unix:/tmp/flashcore-0/8a6a0676a260e343.sock, nothing answers',
    'there; start one with: npx nx serve runner',
  ]);
  expect(layoutOf(screenOf(store.state)).flat(2)[0]?.height).toBe(24 - 5);
});

test.each([
  [120, 40],
  [200, 60],
])(
  'at %dx%d every gate of a measured job is visible beside another view, with its whole title',
  async (columns, rows) => {
    const store = await loadedStore();
    const events = measuredEvents('flashcore_v10');
    store.dispatch({ type: 'resize', columns, rows });
    store.dispatch({ type: 'attach', job: events[0]!.job });
    for (const event of events) store.dispatch({ type: 'job-event', event });
    store.dispatch({ type: 'show', view: 'latency' });
    const { state } = store;
    const pane = layoutOf(screenOf(state))
      .flat(2)
      .find(({ id }) => id === 'gates-rail')!;
    const { body } = PANE_FUNCTIONS['gates-rail']({ state, log: store.log, search: undefined }, insideOf(pane));
    const gates = events.flatMap(({ payload }) => (payload.case === 'gateResult' ? payload.value : []));
    // Unmeasured gates are not listed; their number is shown with the reason.
    const titles = gates.filter(({ verdict }) => verdict !== Verdict.NOT_MEASURED).map(({ title }) => title);
    // A title continues in the next row, and a value is at the end of the first row.
    const words = body.map(rowText).join(' ').split(/ +/);
    expect([gates.length, titles.length]).toEqual([16, 13]);
    expect(words.filter((word) => word === '–').length).toBeGreaterThan(0);
    for (const title of titles)
      expect(
        title.split(' ').filter((word) => !words.includes(word)),
        title,
      ).toEqual([]);
  },
);
