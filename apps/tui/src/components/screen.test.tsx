import { afterEach, expect, test } from 'vitest';
import { cellWidth } from '../present/cells/cell-text.ts';
import { VIEWS, type ViewId } from '../state/app-state.ts';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import { openTerminal, type TestTerminal } from '../testing/terminal.tsx';

let terminal: TestTerminal | undefined;
afterEach(() => terminal?.close());

/** A screen with all lists, and the sample job up to `until` events. */
async function open(columns: number, rows: number, until = Infinity): Promise<TestTerminal> {
  terminal = openTerminal({ columns, rows });
  const { store } = terminal;
  const runner = fakeRunner();
  store.dispatch({ type: 'connection', connection: 'connected' });
  const { host } = await runner.getHost();
  if (host !== undefined) store.dispatch({ type: 'host', host });
  store.dispatch({ type: 'jobs', jobs: (await runner.listJobs()).jobs });
  store.dispatch({ type: 'kernels', kernels: (await runner.listKernels()).kernels });
  store.dispatch({ type: 'experiments', experiments: (await runner.listExperiments()).experiments });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  for (const event of sampleEvents().slice(0, until)) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'next-variant' });
  if (until === Infinity) store.dispatch({ type: 'next-variant' });
  return terminal;
}

const golden = (name: string): string => `./goldens/${name}.txt`;

/** Checks that no row is wider than the screen and that the panes' top and bottom borders are complete. */
function expectWhole(screen: string, columns: number, rows: number): void {
  const lines = screen.split('\n');
  expect(lines).toHaveLength(rows);
  expect(lines.filter((line) => cellWidth(line) > columns)).toEqual([]);
  expect(lines[2]).toMatch(/^╭.*╮$/);
  expect(lines[rows - 3]).toMatch(/^╰.*╯$/);
  expect(lines.slice(2, -2).filter((line) => cellWidth(line) !== columns)).toEqual([]);
}

const CONTENT: Record<ViewId, RegExp[]> = {
  run: [/correct +✗ 6\/7 cases/, /gates +✓3 ⚠2 ✗1 –4/, /WRONG RESULT/, /following/],
  correct: [/2x8x512x64c/, /3\.18e-1/, /1,204/, /farthest beyond its limit: b1 h3 s328/, /X farthest beyond its limit/],
  latency: [/SIMULATED/, /emulator times are not GPU times/, /p99/, /cold/, /hot/],
  profile: [/not measured: hardware counters/, /occupancy/, /72 KB/],
  gates: [/not measured: emulator times are not/, /50 % over/, /hard/],
  jobs: [/queued/, /wrong result/, /compile failed|passed/],
  kernels: [/fa_v1_baseline/, /lesson/],
  host: [/queue of emulator/, /nvcc 13\.0/],
};

for (const view of VIEWS) {
  test(`view ${view} shows its essential texts at 80x24`, async () => {
    const { store, screen } = await open(80, 24);
    store.dispatch({ type: 'show', view });
    const text = await screen();
    for (const pattern of CONTENT[view]) expect(text).toMatch(pattern);
  });
}

test('below 60x16 the screen says that it is too small, and keeps the status line', async () => {
  const { screen } = await open(50, 12);
  await expect(await screen()).toMatchFileSnapshot(golden('too-small'));
});

test('a screen that is too small leaves nothing of the previous screen below its text', async () => {
  const { resize, screen } = await open(120, 40);
  await screen();
  await resize(50, 12);
  const lines = (await screen()).split('\n').map((line) => line.trimEnd());
  expect(lines.filter((line) => line.includes('fa-tui'))).toHaveLength(1);
  expect(lines.slice(3)).toEqual(lines.slice(3).map(() => ''));
});

test('after a resize the screen has a new layout', async () => {
  const { resize, screen } = await open(120, 40);
  for (const [columns, rows] of [
    [80, 24],
    [200, 60],
    [61, 17],
    [120, 40],
  ] as const) {
    await resize(columns, rows);
    expectWhole(await screen(), columns, rows);
  }
});

test('with NO_COLOR no output sets a color', async () => {
  const { store, screen, written } = await open(200, 60);
  for (const view of VIEWS) store.dispatch({ type: 'show', view });
  await screen();
  expect(written()).not.toMatch(/\u001b\[(?:3[0-8]|4[0-8]|9[0-7])[;m]/);
});
