import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import type { Action } from './actions.ts';
import { initialState, VIEWS, type AppState } from './app-state.ts';
import { reduce } from './app-reducer.ts';
import { itemCount, selectedJobName } from './selectors.ts';

const START = initialState({ runner: { label: 'host:1', embedded: false }, columns: 80, rows: 24, now: 0 });
const after = (...actions: Action[]): AppState => actions.reduce(reduce, START);

async function loaded(): Promise<AppState> {
  const runner = fakeRunner();
  return after(
    { type: 'jobs', jobs: (await runner.listJobs()).jobs },
    { type: 'kernels', kernels: (await runner.listKernels()).kernels },
    { type: 'attach', job: SAMPLE_JOB },
    ...sampleEvents().map((event): Action => ({ type: 'job-event', event })),
  );
}

test('views go around in both directions', () => {
  expect(after({ type: 'next-view', step: -1 }).ui.view).toBe('host');
  expect(after({ type: 'show', view: 'host' }, { type: 'next-view', step: 1 }).ui.view).toBe('run');
});

test('a filter needs a search, and goes with it', () => {
  expect(after({ type: 'toggle', what: 'filter' }).ui.log.filter).toBe(false);
  const filtered = after({ type: 'search', query: 'ptxas' }, { type: 'toggle', what: 'filter' });
  expect(filtered.ui.log).toMatchObject({ query: 'ptxas', filter: true });
  expect(reduce(filtered, { type: 'search', query: '' }).ui.log).toMatchObject({ query: '', filter: false });
});

test('a notice goes after 12 seconds', () => {
  const noticed = after({ type: 'notice', text: 'queue is full', tone: 'bad' });
  expect(reduce(noticed, { type: 'tick', now: 12_000 }).notice?.text).toBe('queue is full');
  expect(reduce(noticed, { type: 'tick', now: 12_001 }).notice).toBeUndefined();
});

test('the cursor stays on its job when a newer one comes in above it', async () => {
  const state = reduce(reduce(await loaded(), { type: 'show', view: 'jobs' }), { type: 'move', by: 1 });
  const newest = { ...state.jobs[0]!, name: 'jobs/newest' };
  const next = reduce(state, { type: 'jobs', jobs: [newest, ...state.jobs] });
  expect(next.ui.selected.jobs).toBe(state.ui.selected.jobs + 1);
  expect(selectedJobName(next)).toBe(selectedJobName(state));
});

test('attaching to another job starts at its first variant and the end of its log', async () => {
  const state = reduce(reduce(await loaded(), { type: 'next-variant' }), {
    type: 'log-position',
    follow: false,
    top: 3,
  });
  expect(state.ui).toMatchObject({ variant: 1, log: { follow: false, top: 3 } });
  expect(reduce(state, { type: 'attach', job: 'jobs/other' }).ui).toMatchObject({
    variant: 0,
    log: { follow: true, top: 0 },
  });
});

test('whatever is pressed, every cursor stays on what there is', async () => {
  const start = await loaded();
  const action: fc.Arbitrary<Action> = fc.oneof(
    fc.constantFrom(...VIEWS).map((view): Action => ({ type: 'show', view })),
    fc.integer({ min: -30, max: 30 }).map((by): Action => ({ type: 'move', by })),
    fc.constantFrom<Action>(
      { type: 'move-to', end: 'first' },
      { type: 'move-to', end: 'last' },
      { type: 'next-variant' },
      { type: 'job-list', list: 'history' },
      { type: 'zoom' },
      { type: 'jobs', jobs: [] },
      { type: 'next-view', step: 1 },
    ),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 40 }), (actions) => {
      const state = actions.reduce(reduce, start);
      for (const view of VIEWS) {
        const count = itemCount(state, view);
        if (count !== undefined) expect(state.ui.selected[view]).toBeLessThan(Math.max(1, count));
        expect(state.ui.selected[view]).toBeGreaterThanOrEqual(0);
      }
    }),
    { numRuns: 100 },
  );
});

test('what was told of a lost connection goes when it is back; other notices stay', () => {
  const lost = after(
    { type: 'connection', connection: 'reconnecting' },
    { type: 'notice', text: 'no runner at host:1', tone: 'bad', about: 'connection' },
  );
  expect(reduce(lost, { type: 'connection', connection: 'connected' }).notice).toBeUndefined();
  const other = after(
    { type: 'connection', connection: 'reconnecting' },
    { type: 'notice', text: 'queue is full', tone: 'bad' },
  );
  expect(reduce(other, { type: 'connection', connection: 'connected' }).notice?.text).toBe('queue is full');
});

test('a comparison ends with another job on the screen', async () => {
  const comparing = reduce(await loaded(), { type: 'compare', on: true });
  expect(comparing.ui.comparing).toBe(true);
  expect(reduce(comparing, { type: 'attach', job: 'jobs/another' }).ui.comparing).toBe(false);
});

test('the list of jobs knows of an end as soon as its event has come', async () => {
  const state = await loaded();
  const ended = state.jobs.find(({ name }) => name === SAMPLE_JOB);
  expect([ended?.state, ended?.outcome]).toEqual([state.views[SAMPLE_JOB]?.state, state.views[SAMPLE_JOB]?.outcome]);
});

test('what was wrong with a watched folder is told until it runs again', () => {
  const broken = after(
    { type: 'watching', folder: '/k' },
    { type: 'notice', text: 'kernel.yaml: title: wanted a text', tone: 'bad', about: 'folder' },
  );
  expect(reduce(broken, { type: 'key' }).notice?.text).toBe('kernel.yaml: title: wanted a text');
  expect(reduce(broken, { type: 'version-started', job: 'jobs/2' }).notice).toBeUndefined();
});
