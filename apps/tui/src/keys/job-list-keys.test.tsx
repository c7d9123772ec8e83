/** The keys of view 6 act on the row under the cursor, whatever job is on the screen. */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { JobKind, JobSchema, JobState, KernelSchema, Outcome } from '@flashcore/shared/contract';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import { openTerminal, type TestTerminal } from '../testing/terminal.tsx';

const ESCAPE = '\u001b';

let terminal: TestTerminal;
/** The methods of the started jobs. */
let methods: string[];
beforeEach(async () => {
  const runner = fakeRunner({ events: sampleEvents() });
  methods = [];
  const { start } = runner;
  runner.start = (method, ...rest) => {
    methods.push(method);
    return start(method, ...rest);
  };
  terminal = openTerminal({ columns: 120, rows: 40, session: true, runner });
  await terminal.screen();
  terminal.store.dispatch({ type: 'jobs', jobs: JOBS });
  terminal.store.dispatch({ type: 'attach', job: SHOWN.name });
  terminal.store.dispatch({ type: 'job-opened', job: SHOWN.name });
});
afterEach(() => terminal.close());

const jobNamed = (
  letter: string,
  kernelId: string,
  more: Exclude<MessageInitShape<typeof JobSchema>, { $typeName: string }>,
) =>
  create(JobSchema, {
    name: `jobs/${letter.repeat(8)}-0000-4000-8000-000000000000`,
    kernelId,
    label: kernelId,
    kind: JobKind.EXPERIMENT,
    state: JobState.ENDED,
    outcome: Outcome.PASSED,
    ...more,
  });
const RUNNING = jobNamed('a', 'flashcore_v6', { state: JobState.RUNNING, outcome: Outcome.UNSPECIFIED });
const SHOWN = jobNamed('b', 'fa_v1_baseline', {});
const ROW = jobNamed('c', 'fa_v2_wmma', { kind: JobKind.VERIFY, label: 'fa_v2_wmma USE_WMMA=0' });
const UNLISTED = jobNamed('d', 'mine', {});
const JOBS = [RUNNING, SHOWN, ROW, UNLISTED];

/** Puts the cursor of view 6 on a row. */
const onRow = (job: { name: string }): Promise<void> =>
  terminal.press(`6g${'j'.repeat(JOBS.findIndex(({ name }) => name === job.name))}`);
const ui = () => terminal.store.state.ui;
const said = () => terminal.store.state.notice?.text;

test('r repeats the kind and the parameters of the job under the cursor', async () => {
  await onRow(ROW);
  await terminal.press('r');
  await expect.poll(() => methods).toEqual(['verify']);
  expect(terminal.store.state.commandLog.at(-1)?.text).toBe('fa-tui verify fa_v2_wmma --set USE_WMMA=0');
  expect(terminal.runner.requests[0]).toMatchObject({ variant: { parameters: { USE_WMMA: 0n } } });
});

test('r repeats the selected job with the values of its own form, not those of another job of its kernel', async () => {
  await terminal.press('7gj\r');
  await terminal.press('jjj2x8x512x64c\r');
  const started = jobNamed('e', 'fa_v2_wmma', { name: SAMPLE_JOB });
  terminal.store.dispatch({ type: 'jobs', jobs: [...JOBS, started] });
  await onRow(ROW);
  await terminal.press('r');
  terminal.store.dispatch({ type: 'jobs', jobs: [...JOBS, started] });
  await terminal.press('6G');
  await terminal.press('r');
  expect(terminal.store.state.commandLog.map(({ text }) => text)).toEqual([
    'fa-tui run fa_v2_wmma --shape 2x8x512x64c',
    'fa-tui verify fa_v2_wmma --set USE_WMMA=0',
    'fa-tui verify fa_v2_wmma --set USE_WMMA=0',
  ]);
});

test('R opens the form of the job under the cursor', async () => {
  await onRow(ROW);
  await terminal.press('R');
  expect(await terminal.screen()).toMatch(/Run fa_v2_wmma[^]*phases +← verify →[^]*USE_WMMA +← 0 →/);
});

test('r on a job whose kernel is not listed runs nothing and names that kernel', async () => {
  await onRow(UNLISTED);
  await terminal.press('r');
  expect([methods, said()]).toEqual([[], expect.stringMatching(/^The list of kernels lacks mine: F in 7 adds/)]);
});

test('b pins the job under the cursor, and c compares the next one with it', async () => {
  await onRow(ROW);
  await terminal.press('b');
  expect(ui().pinned).toBe(ROW.name);
  await onRow(UNLISTED);
  await terminal.press('c');
  expect([terminal.store.state.attached, ui().comparing]).toEqual([UNLISTED.name, true]);
});

test('r repeats and e edits the job under the cursor, also while it or another job is pinned', async () => {
  for (const pinned of [ROW, SHOWN]) {
    await onRow(pinned);
    await terminal.press('b');
    await onRow(ROW);
    await terminal.press('r');
    expect(terminal.store.state.commandLog.at(-1)?.text).toBe('fa-tui verify fa_v2_wmma --set USE_WMMA=0');
    terminal.store.dispatch({ type: 'jobs', jobs: JOBS });
    await onRow(ROW);
    await terminal.press('e');
    expect(terminal.edited.at(-1)?.file).toMatch(/fa_v2_wmma/);
    expect(ui().pinned).toBe(pinned.name);
  }
});

test('x asks about the job under the cursor, and on one that has ended cancels nothing', async () => {
  await onRow(RUNNING);
  await terminal.press('x');
  expect(ui().overlay).toMatchObject({ kind: 'confirm', subjects: [RUNNING.name] });
  await terminal.press('n');
  await onRow(ROW);
  await terminal.press('x');
  expect([ui().overlay, said()]).toEqual([undefined, expect.stringMatching(/^There is nothing to cancel/)]);
});

test.each(['a', 'X', 'u'])('%s reads the job under the cursor to decide about it', async (key) => {
  const asked: string[] = [];
  const { watch } = terminal.runner;
  terminal.runner.watch = (job, ...rest) => {
    asked.push(job);
    return watch(job, ...rest);
  };
  await onRow(ROW);
  await terminal.press(key);
  expect([...new Set(asked)]).toEqual([ROW.name]);
});

test('e edits the source of the job under the cursor, and W offers the folder of its kernel', async () => {
  const kernel = { ...create(KernelSchema, { kernelId: 'mine' }), folder: '/work/mine' };
  await onRow(UNLISTED);
  terminal.store.dispatch({ type: 'kernels', kernels: [kernel, ...terminal.store.state.kernels] });
  await terminal.press('W');
  expect(ui().overlay).toMatchObject({ kind: 'watch-folder', text: '/work/mine' });
  await terminal.press(ESCAPE);
  await onRow(ROW);
  await terminal.press('e');
  expect(terminal.edited[0]?.file).toMatch(/kernels\/fa_v2_wmma\/fa_v2_wmma\.cu$/);
});

test('Space and A say why nothing can be marked if the jobs have ended', async () => {
  await onRow(ROW);
  await terminal.press(' ');
  expect([ui().marked, said()]).toEqual([[], expect.stringMatching(/^This job has ended: Space marks jobs/)]);
  terminal.store.dispatch({ type: 'jobs', jobs: JOBS.slice(1) });
  await terminal.press('A');
  expect(said()).toMatch(/^There is nothing to mark: all listed jobs have ended/);
});

test('if a filter leaves no row, no key acts on the job on the screen', async () => {
  await terminal.press('6/nothing of the kind\r');
  for (const key of ['r', 'R', 'b', 'a', 'X', 'x', 'c', 'u', 'e']) {
    await terminal.press(key);
    expect([ui().overlay, ui().pinned, methods], key).toEqual([undefined, undefined, []]);
  }
  await terminal.press('b');
  expect(said()).toMatch(/^No row is under the cursor: Esc shows all/);
});
