import fc from 'fast-check';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ExperimentSummarySchema,
  JobEventSchema,
  JobSchema,
  KernelSchema,
  JobKind,
  JobState,
  Outcome,
  type ExperimentSummary,
  type Job,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, eventsOf, sampleEvents } from '../testing/sample-job.ts';
import type { Action } from './actions.ts';
import { initialState, VIEWS, type AppState } from './app-state.ts';
import { reduce } from './app-reducer.ts';
import { cancellableJob } from './chosen.ts';
import {
  hasDuration,
  WATCH_LABEL,
  itemCount,
  jobsOf,
  kernelsOf,
  hiddenText,
  historyOf,
  lastExperiments,
  railJobsOf,
  selectedJobName,
  selectedKernel,
} from './selectors.ts';

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

test('the view keys wrap around in both directions', () => {
  expect(after({ type: 'next-view', step: -1 }).ui.view).toBe('host');
  expect(after({ type: 'show', view: 'host' }, { type: 'next-view', step: 1 }).ui.view).toBe('run');
});

test('the log can be filtered only during a search, and ending the search removes the filter', () => {
  expect(after({ type: 'toggle', what: 'filter' }).ui.log.filter).toBe(false);
  const filtered = after({ type: 'search', query: 'ptxas' }, { type: 'toggle', what: 'filter' });
  expect(filtered.ui.log).toMatchObject({ query: 'ptxas', filter: true });
  expect(reduce(filtered, { type: 'search', query: '' }).ui.log).toMatchObject({ query: '', filter: false });
});

test('a notice disappears after 12 seconds', () => {
  const noticed = after({ type: 'notice', text: 'queue is full', tone: 'bad' });
  expect(reduce(noticed, { type: 'tick', now: 12_000 }).notice?.text).toBe('queue is full');
  expect(reduce(noticed, { type: 'tick', now: 12_001 }).notice).toBeUndefined();
});

test('the cursor stays on its job when a newer job appears above it', async () => {
  const state = reduce(reduce(await loaded(), { type: 'show', view: 'jobs' }), { type: 'move', by: 1 });
  const newest = { ...state.jobs[0]!, name: 'jobs/newest' };
  const next = reduce(state, { type: 'jobs', jobs: [newest, ...state.jobs] });
  expect(next.ui.selected.jobs).toBe(state.ui.selected.jobs + 1);
  expect(selectedJobName(next)).toBe(selectedJobName(state));
});

test('a job that the list reports as ended is never shown as running, even while its log is being read', async () => {
  const runner = fakeRunner();
  const { jobs } = await runner.listJobs();
  const ended = jobs.map((job) =>
    job.name === SAMPLE_JOB ? { ...job, state: JobState.ENDED, outcome: Outcome.WRONG_RESULT } : job,
  );
  const events = sampleEvents();
  const attached = after({ type: 'jobs', jobs: ended }, { type: 'attach', job: SAMPLE_JOB });
  const ends = [attached, after({ type: 'jobs', jobs }, { type: 'attach', job: SAMPLE_JOB })].map((state) =>
    events.reduce((read, event) => {
      const next = reduce(reduce(read, { type: 'job-event', event }), { type: 'jobs', jobs: ended });
      expect(next.views[SAMPLE_JOB]).toMatchObject({ state: JobState.ENDED, outcome: Outcome.WRONG_RESULT });
      expect(cancellableJob(next)).toBeUndefined();
      return next;
    }, state),
  );
  expect(ends.map((state) => state.views[SAMPLE_JOB]?.endTime !== undefined)).toEqual([true, true]);
});

test('running jobs come first, then queued jobs in the order in which they will run; a superseded save is listed only when the filter matches it', () => {
  const job = (name: string, more: MessageInitShape<typeof JobSchema>): Job => create(JobSchema, { name, ...more });
  const labels = { [WATCH_LABEL]: 'w' };
  const jobs = [
    job('save 3', { state: JobState.ENDED, outcome: Outcome.PASSED, labels }),
    job('waits longer', { state: JobState.QUEUED, queuePosition: 2 }),
    job('queued', { state: JobState.QUEUED, queuePosition: 1 }),
    job('save 2', { state: JobState.ENDED, outcome: Outcome.CANCELLED, labels }),
    job('running', { state: JobState.RUNNING }),
    job('other watch', { state: JobState.ENDED, outcome: Outcome.CANCELLED, labels: { [WATCH_LABEL]: 'x' } }),
    job('cancelled', { state: JobState.ENDED, outcome: Outcome.CANCELLED }),
  ];
  const state = after({ type: 'jobs', jobs });
  const names = (of: AppState): string[] => jobsOf(of).map(({ name }) => name);
  expect(names(state)).toEqual(['running', 'queued', 'waits longer', 'save 3', 'other watch', 'cancelled']);
  expect(hiddenText(state)).toBe(', 1 superseded save hidden');
  const filtered = reduce(state, { type: 'list-filter', list: 'jobs', text: 'save' });
  expect([names(filtered), hiddenText(filtered)]).toEqual([['save 3', 'save 2'], ', 1 superseded save among them']);
  expect(railJobsOf(filtered).length).toBe(6);
});

test('view 6 stays sorted while jobs start and end, and cursor and marks stay on their jobs', () => {
  const job = (name: string, state: JobState, queuePosition = 0): Job =>
    create(JobSchema, { name, state, queuePosition });
  const { QUEUED, RUNNING, ENDED } = JobState;
  const names = (of: AppState): string[] => jobsOf(of).map(({ name }) => name);
  const entered = after(
    { type: 'jobs', jobs: [job('c', QUEUED, 2), job('b', QUEUED, 1), job('a', RUNNING), job('old', ENDED)] },
    { type: 'show', view: 'jobs' },
    { type: 'move', by: 1 },
    { type: 'mark', jobs: ['c'] },
  );
  expect([names(entered), selectedJobName(entered)]).toEqual([['a', 'b', 'c', 'old'], 'b']);
  const later = reduce(entered, {
    type: 'jobs',
    jobs: [job('d', QUEUED, 2), job('c', QUEUED, 1), job('b', RUNNING), job('a', ENDED), job('old', ENDED)],
  });
  expect([names(later), selectedJobName(later), later.ui.marked]).toEqual([['b', 'c', 'd', 'a', 'old'], 'b', ['c']]);
  const [started] = eventsOf([{ case: 'started', value: {} }], 'c');
  const next = reduce(reduce(later, { type: 'move', by: 2 }), { type: 'job-event', event: started! });
  expect([names(next), selectedJobName(next)]).toEqual([['c', 'b', 'd', 'a', 'old'], 'd']);
});

test('a filter finds labels, and "failures" finds every job that ended badly', () => {
  const ended = (name: string, outcome: Outcome, more: MessageInitShape<typeof JobSchema> = {}): Job =>
    create(JobSchema, { name, outcome, state: JobState.ENDED, ...more });
  const jobs = [
    ended('a', Outcome.PASSED, { summary: 'no hard gate failed', labels: { night: '1' } }),
    ended('b', Outcome.WRONG_RESULT, { summary: 'RACE: two threads' }),
    ended('c', Outcome.COMPILE_FAILED),
    ended('d', Outcome.CANCELLED),
    ended('e', Outcome.INTERRUPTED),
  ];
  const state = after(
    { type: 'jobs', jobs },
    { type: 'experiments', experiments: jobs.map((job) => create(ExperimentSummarySchema, { job })) },
  );
  const found = (text: string): string[][] => {
    const filtered = (['jobs', 'history'] as const).reduce(
      (before, list) => reduce(before, { type: 'list-filter', list, text }),
      state,
    );
    return [jobsOf(filtered).map(({ name }) => name), historyOf(filtered).map(({ job }) => job?.name ?? '')];
  };
  expect(found('night')).toEqual([['a'], ['a']]);
  // The summary of a passed job says what did not fail.
  expect(found('fail')).toEqual([
    ['b', 'c', 'e'],
    ['b', 'c', 'e'],
  ]);
  expect(found('failures')).toEqual([
    ['b', 'c', 'e'],
    ['b', 'c', 'e'],
  ]);
  expect(found('race')).toEqual([['b'], ['b']]);
  expect(found('wrong result')).toEqual([['b'], ['b']]);
});

test('a filter prefers names to summaries, and the cursor goes to the first row if its own is hidden', () => {
  const jobs = ['other', 's2', 's3'].map((label, index) =>
    create(JobSchema, {
      name: `jobs/${index}`,
      label,
      state: JobState.ENDED,
      outcome: Outcome.WRONG_RESULT,
      summary: 'wrong at h0 s294',
    }),
  );
  const state = after({ type: 'jobs', jobs }, { type: 'show', view: 'jobs' }, { type: 'move', by: 2 });
  const filtered = (text: string): AppState => reduce(state, { type: 'list-filter', list: 'jobs', text });
  const shown = (of: AppState): unknown[] => [jobsOf(of).map(({ label }) => label), of.ui.selected.jobs];
  expect([shown(filtered('s2')), shown(filtered('s294')), shown(filtered('other'))]).toEqual([
    [['s2'], 0],
    [['other', 's2', 's3'], 2],
    [['other'], 0],
  ]);
});

test('the filter of view 7 prefers names and titles to lessons, which rows do not show', () => {
  const kernels = [
    create(KernelSchema, { kernelId: 'one_s2', title: 'a title', lesson: 'the first lesson' }),
    create(KernelSchema, { kernelId: 'two', title: 'another', lesson: 'what s2 does with tma' }),
  ];
  const state = after({ type: 'kernels', kernels }, { type: 'show', view: 'kernels' });
  const listed = (text: string): string[] =>
    kernelsOf(reduce(state, { type: 'list-filter', list: 'kernels', text })).map(({ kernelId }) => kernelId);
  expect([listed('s2'), listed('tma'), listed('title')]).toEqual([['one_s2'], ['two'], ['one_s2']]);
});

test('reading a list of jobs that has not changed changes nothing', () => {
  const job = create(JobSchema, { name: 'jobs/1', state: JobState.RUNNING, startTime: { seconds: 5n } });
  const state = after({ type: 'jobs', jobs: [job] });
  const read = (more: Partial<typeof job> = {}): AppState =>
    reduce(state, { type: 'jobs', jobs: [create(JobSchema, { ...job, ...more })] });
  expect(read()).toBe(state);
  expect(read({ state: JobState.ENDED }).jobs[0]?.state).toBe(JobState.ENDED);
  expect(read({ queuePosition: 3 }).jobs[0]?.queuePosition).toBe(3);
});

test('the history hides a superseded save even if only a verification followed it, and the titles count what is hidden', () => {
  const labels = { [WATCH_LABEL]: 'w' };
  const older = create(JobSchema, { name: 'older', state: JobState.ENDED, outcome: Outcome.CANCELLED, labels });
  const newer = create(JobSchema, { name: 'newer', kind: JobKind.VERIFY, state: JobState.ENDED, labels });
  const other = create(JobSchema, { name: 'other', state: JobState.ENDED, outcome: Outcome.PASSED });
  const state = after(
    { type: 'jobs', jobs: [newer, older, other] },
    { type: 'experiments', experiments: [older, other].map((job) => create(ExperimentSummarySchema, { job })) },
  );
  const history = reduce(state, { type: 'job-list', list: 'history' });
  expect(historyOf(history).map(({ job }) => job?.name)).toEqual(['other', 'newer']);
  expect([hiddenText(state), hiddenText(history)]).toEqual([
    ', 1 superseded save hidden',
    ', 1 superseded save hidden',
  ]);
  const filtered = reduce(history, { type: 'list-filter', list: 'history', text: 'o' });
  expect([historyOf(filtered).length, hiddenText(filtered)]).toEqual([2, ', 1 superseded save among them']);
});

test('the figures of a kernel are those of its last run that was not stopped', () => {
  const experiment = (name: string, outcome: Outcome, kernelId = 'k'): ExperimentSummary =>
    create(ExperimentSummarySchema, { job: { name, kernelId, outcome, state: JobState.ENDED } });
  const last = lastExperiments([
    experiment('interrupted', Outcome.INTERRUPTED),
    experiment('cancelled', Outcome.CANCELLED),
    experiment('passed', Outcome.PASSED),
    experiment('failed', Outcome.FAILED),
    experiment('only', Outcome.CANCELLED, 'other'),
  ]);
  expect([...last].map(([id, { job }]) => [id, job?.name])).toEqual([
    ['k', 'passed'],
    ['other', 'only'],
  ]);
});

test('view 2 opens on the failed case, but not once the user has moved the cursor', async () => {
  const opened = reduce(await loaded(), { type: 'show', view: 'correct' });
  expect(opened.ui.selected.correct).toBe(3);
  const moved = reduce(opened, { type: 'move', by: 1 });
  expect(
    reduce(reduce(moved, { type: 'show', view: 'run' }), { type: 'show', view: 'correct' }).ui.selected.correct,
  ).toBe(4);
});

test('the cursor of view 7 stays on its kernel when a folder is listed above it', async () => {
  const state = reduce(reduce(await loaded(), { type: 'show', view: 'kernels' }), { type: 'move', by: 1 });
  const own = { ...create(KernelSchema, { kernelId: 'mine' }), folder: '/mine' };
  const next = reduce(state, { type: 'kernels', kernels: [own, ...state.kernels] });
  expect(selectedKernel(next)).toEqual(selectedKernel(state));
});

test('the next save is not compared with a superseded one', () => {
  const ended = (job: string, outcome: Outcome): Action[] =>
    eventsOf(
      [
        { case: 'created', value: { job: { name: job } } },
        { case: 'finished', value: { outcome } },
      ],
      job,
    ).map((event) => ({ type: 'job-event', event }));
  const state = after(
    { type: 'watching', folder: '/k' },
    { type: 'version-started', job: 'a' },
    ...ended('a', Outcome.PASSED),
    { type: 'version-started', job: 'b' },
    ...ended('b', Outcome.CANCELLED),
    { type: 'version-started', job: 'c' },
  );
  expect(state.watching).toMatchObject({ job: 'c', jobBefore: 'a' });
});

test('another job is shown from its first variant and the end of its log', async () => {
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

/** The sample job's events as those of another job. */
const samplesOf = (job: string): Action[] =>
  sampleEvents().map((event) => ({ type: 'job-event', event: { ...event, job } }));

test('with the next version of a watched kernel, a cursor returns to its row once there is one, unless it was moved', async () => {
  const moved = [
    { type: 'show', view: 'correct' },
    { type: 'move', by: 3 },
    { type: 'show', view: 'gates' },
    { type: 'move', by: 2 },
  ].reduce((state, action) => reduce(state, action as Action), await loaded());
  const events = samplesOf('jobs/next');
  const next = [events[0]!, { type: 'attach', job: 'jobs/next', isVersion: true } as const].reduce(reduce, moved);
  expect(next.ui).toMatchObject({ view: 'gates', selected: { correct: 0, gates: 0 } });
  const whole = events.reduce(reduce, next);
  const { correct } = moved.ui.selected;
  expect(correct).toBeGreaterThan(2);
  expect(whole.ui.selected).toMatchObject({ correct, gates: 2 });
  const first = events.reduce(reduce, reduce(next, { type: 'move-to', end: 'first' }));
  expect(first.ui.selected).toMatchObject({ correct, gates: 0 });
  const opened = [...events, { type: 'attach', job: 'jobs/next' } as const].reduce(reduce, moved);
  expect(opened.ui.selected).toMatchObject({ correct: 0, gates: 0 });
});

test('whatever key is pressed, every cursor stays within its list', async () => {
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

test('a notice about a lost connection disappears when the connection is back; other notices stay', () => {
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

test('the notice about jobs that are being cancelled disappears when all of them have ended', () => {
  const [created, finished] = eventsOf(
    [
      { case: 'created', value: { job: { name: 'jobs/1' } } },
      { case: 'finished', value: { outcome: Outcome.CANCELLED } },
    ],
    'jobs/1',
  );
  const asked = after(
    { type: 'job-event', event: created! },
    { type: 'notice', text: 'Cancelling', tone: 'info', about: 'cancel', jobs: ['jobs/1', 'jobs/2'] },
  );
  const one = reduce(asked, { type: 'job-event', event: finished! });
  expect(one.notice).toMatchObject({ text: 'Cancelling', jobs: ['jobs/2'] });
  // The other one is not watched: the list of jobs has its end.
  const list = (state: JobState) => [create(JobSchema, { name: 'jobs/2', state })];
  const running = reduce(one, { type: 'jobs', jobs: list(JobState.RUNNING) });
  expect(running.notice?.text).toBe('Cancelling');
  expect(reduce(running, { type: 'jobs', jobs: list(JobState.ENDED) }).notice).toBeUndefined();
});

test('showing another job ends a comparison', async () => {
  const comparing = reduce(await loaded(), { type: 'compare', on: true });
  expect(comparing.ui.comparing).toBe(true);
  expect(reduce(comparing, { type: 'attach', job: 'jobs/another' }).ui.comparing).toBe(false);
});

test('the list of jobs shows the end of a job as soon as the event arrives', async () => {
  const state = await loaded();
  const ended = state.jobs.find(({ name }) => name === SAMPLE_JOB);
  expect([ended?.state, ended?.outcome]).toEqual([state.views[SAMPLE_JOB]?.state, state.views[SAMPLE_JOB]?.outcome]);
});

test('a notice about a broken watched folder stays until the folder runs again', () => {
  const broken = after(
    { type: 'watching', folder: '/k' },
    { type: 'notice', text: 'kernel.yaml: title: must be a text', tone: 'bad', about: 'folder' },
  );
  expect(reduce(broken, { type: 'key' }).notice?.text).toBe('kernel.yaml: title: must be a text');
  expect(reduce(broken, { type: 'version-started', job: 'jobs/2' }).notice).toBeUndefined();
});

test.each(['toString', 'constructor', '__proto__'])('a job named %s gets a view of that name', (job) => {
  const [first] = sampleEvents();
  const state = after({ type: 'attach', job }, { type: 'job-event', event: { ...first!, job } });
  expect(Object.keys(state.views)).toEqual([job]);
  expect(Object.entries(state.views)[0]![1].name).toBe(job);
});

test('a search of the log ends at a job of another kernel, and stays for the next save of the same one', () => {
  const view = (name: string, kernelId: string): Action => ({
    type: 'job-event',
    event: create(JobEventSchema, {
      job: name,
      sequence: 1n,
      payload: { case: 'created', value: { job: { name, kernelId, label: kernelId } } },
    }),
  });
  const query = (next: string): string =>
    after(
      view('jobs/a', 'mine'),
      view('jobs/b', next),
      { type: 'attach', job: 'jobs/a' },
      { type: 'search', query: 'error' },
      { type: 'attach', job: 'jobs/b' },
    ).ui.log.query;
  expect([query('mine'), query('other')]).toEqual(['error', '']);
});

test('a job that was cancelled before it ran has no duration', () => {
  const job = { outcome: Outcome.CANCELLED, state: JobState.ENDED };
  expect([
    hasDuration({ ...job, startTime: undefined }),
    hasDuration({ ...job, startTime: 1 }),
    hasDuration({ ...job, startTime: 1, outcome: Outcome.INTERRUPTED }),
    hasDuration({ ...job, startTime: undefined, state: JobState.QUEUED }),
  ]).toEqual([false, true, false, true]);
});
