import { create } from '@bufbuild/protobuf';
import { JobSchema, JobState, Outcome, Phase } from '@flashcore/shared/contract';
import { describe, expect, test } from 'vitest';
import { rowText, run } from '../../present/cells/row.ts';
import { Store } from '../../session/store.ts';
import { initialState } from '../../state/app-state.ts';
import { reduceJob } from '../../state/job-reducer.ts';
import { jobViewOf, type JobView } from '../../state/job-view.ts';
import { WATCH_LABEL, waitText, waitedText } from '../../state/selectors.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, eventsOf, sampleEvents } from '../../testing/sample-job.ts';
import { headerRow } from '../chrome/header.ts';
import { messageRows } from '../chrome/message.ts';
import { buildRail } from '../dashboard/build-rail.ts';
import { jobRow, runView } from './run.ts';

test('the build ends with its result; the time until the next phase is shown as a wait for the device', () => {
  const events = sampleEvents();
  const until = events.findIndex(({ payload }) => payload.case === 'buildResult');
  const view = events
    .slice(0, until + 1)
    .reduce(
      reduceJob,
      jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
    );
  const { phase, endTime } = view.phases.at(-1)!;
  expect([Phase[phase], endTime]).toEqual(['BUILD', SAMPLE_START_MS + until * 200]);
  const after = (afterMs: number) => rowText(jobRow(view, endTime! + afterMs, 100)).trimEnd();
  expect([after(100), after(8_000)]).toEqual([
    '● running  2.30 s  ✓ build USE_WMMA=1 1/2 1.40 s',
    '● running  10.2 s  ✓ build USE_WMMA=1 1/2 1.40 s   ● waiting for the device 8.00 s',
  ]);
});

test('a summary that does not fit ends with a whole clause', () => {
  const summary = '7 of 7 cases correct, largest error 1.93e-3; plan merge: no hard gate failed';
  const view = {
    ...jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
    ...{ state: JobState.ENDED, outcome: Outcome.PASSED, summary },
  };
  const at = (width: number): string => rowText(jobRow(view, 0, width)).trimEnd();
  expect([at(100), at(60), at(40)]).toEqual([
    `✓ passed  ${summary}`,
    '✓ passed  7 of 7 cases correct, largest error 1.93e-3 …',
    '✓ passed  7 of 7 cases correct …',
  ]);
});

test('a job that waits until the emulator is compiled says so, with the progress', () => {
  const events = sampleEvents();
  const until = events.findIndex(({ payload }) => payload.case === 'buildResult');
  const lines = [
    ...events.slice(0, until + 1).map(({ payload }) => payload),
    ...[
      'compiling libcuda_emu.so with g++ 13.2; the next job finds it in the cache',
      'compiling libcuda_emu.so, libreference.so: 1 of 2 done, 10 s',
      'compilations: 2 of 2 done, 20 s',
    ].map((text) => ({ case: 'logLine' as const, value: { source: 'runner', text } })),
  ];
  const views = eventsOf(lines).reduce<JobView[]>(
    (before, event) => [...before, reduceJob(before.at(-1)!, event)],
    [jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' })],
  );
  const now = views.at(-1)!.phases.at(-1)!.endTime! + 30_000;
  expect(views.slice(-4).map((view) => waitText(view, now))).toEqual([
    'waiting for the device',
    'compiling the emulator',
    'compiling the emulator, 1 of 2',
    'waiting for the device',
  ]);
  expect(rowText(jobRow(views.at(-2)!, now, 100))).toContain('● compiling the emulator, 1 of 2, 30.0 s');
  expect(waitText(views.at(-2)!, now + 60_000)).toBe('waiting for the device');
  // After the job, the time that it took has the same name.
  expect([views.at(-4)!, views.at(-1)!].map(waitedText)).toEqual(['waiting for the device', 'compiling the emulator']);
});

test.each([
  [
    'waiting for the build begun 12 s ago, while the job was queued; it now has normal priority; the last one took 8.8 s',
    'waiting for the build begun 12 s ago, while the job was queued; it now has normal priority; the last one took 8.8 s',
  ],
  ['building the kernel; the last one took 8.8 s', 'the last one took 8.8 s'],
])('while a job builds, the build pane repeats what the runner says: %s', (text, shown) => {
  const events = sampleEvents();
  const until = events.findIndex(
    ({ payload }) => payload.case === 'phaseStarted' && payload.value.phase === Phase.BUILD,
  );
  const told = { case: 'logLine' as const, value: { source: 'runner', text } };
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 120, rows: 40, now: SAMPLE_START_MS }),
  });
  for (const event of eventsOf([...events.slice(0, until + 1).map(({ payload }) => payload), told]))
    store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  const { body } = buildRail(store, { width: 200, height: 5 });
  expect(body.map((row) => rowText(row).trimEnd())).toEqual([expect.stringMatching(/^● compiling /), shown]);
});

describe('a job whose variant failed', () => {
  const runner = { label: 'x', embedded: true };
  const start = initialState({ runner, columns: 100, rows: 24, now: SAMPLE_START_MS });
  const events = sampleEvents();
  const after = (count: number): Store => {
    const store = new Store({ state: start });
    for (const event of events.slice(0, count)) store.dispatch({ type: 'job-event', event });
    store.dispatch({ type: 'attach', job: SAMPLE_JOB });
    return store;
  };
  const screen = ({ state, log, search }: Store): string => {
    const { title, body } = runView({ state, log, search }, { width: 96, height: 20 });
    return [headerRow(state, 100), ...messageRows(state, 100), [run(title)], ...body].map(rowText).join('\n');
  };

  test('says that its fallback runs too, but does not decide the verdict', () => {
    const shown = screen(after(events.length - 1));
    expect(shown).toMatch(
      /USE_WMMA=1 failed: its fallback USE_WMMA=0 runs as well, and decides nothing; x stops it, +r runs/,
    );
    expect(shown).toMatch(/verify USE_WMMA=0/);
    expect(shown).toMatch(/● verify fallback USE_WMMA=0 1\/7/);
  });

  test('names the variant of its rows, and what the other one did', () => {
    const store = after(events.length);
    expect(screen(store)).toMatch(/fallback ✓ USE_WMMA=0 +decides nothing +v shows it +1\/1 case/);
    store.dispatch({ type: 'next-variant' });
    const shown = screen(store);
    expect(shown).toMatch(/1 Run {2}flashcore_v6 USE_WMMA=1, shown: USE_WMMA=0, the fallback/);
    expect(shown).toMatch(/asked +✗ USE_WMMA=1 .*decides/);
  });
});

test('a job that a newer save replaced says so, rather than that it was cancelled', () => {
  const [created] = sampleEvents();
  const job = (name: string, outcome: Outcome) =>
    create(JobSchema, { name, label: 'k', state: JobState.ENDED, outcome, labels: { [WATCH_LABEL]: 'one' } });
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 100, rows: 24, now: SAMPLE_START_MS }),
  });
  const end = { outcome: Outcome.CANCELLED, summary: 'Cancelled while it was running' };
  for (const event of eventsOf([created!.payload, { case: 'finished', value: end }]))
    store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  const shown = (): string => {
    const { state, log, search } = store;
    return rowText(runView({ state, log, search }, { width: 96, height: 20 }).body[0]!);
  };
  expect(shown()).toContain('Cancelled while it was running');
  const jobs = [job('jobs/newer', Outcome.PASSED), job(SAMPLE_JOB, Outcome.CANCELLED)];
  store.dispatch({ type: 'jobs', jobs });
  expect(shown()).toContain('A newer save replaced it');
});

test('a job that was cancelled before it ran shows no time, but shows its outcome', () => {
  const view = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finished', value: { outcome: Outcome.CANCELLED, summary: 'Cancelled while it was queued' } },
  ]).reduce(
    reduceJob,
    jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
  );
  expect(rowText(jobRow(view, SAMPLE_START_MS, 60)).trimEnd()).toBe('○ cancelled  Cancelled while it was queued');
});

test('a job whose finding is shown below keeps the word of its outcome', () => {
  const summary = 'RACE: thread (96,0,0) writes byte 1,728';
  const view = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finished', value: { outcome: Outcome.WRONG_RESULT, summary } },
  ]).reduce(
    reduceJob,
    jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' }),
  );
  const row = (about?: string): string => rowText(jobRow(view, SAMPLE_START_MS, 60, about)).trimEnd();
  expect([row(), row('')]).toEqual(['✗ race  thread (96,0,0) writes byte 1,728', '✗ race']);
});

test('view 1 of a small screen shows the whole verdict of a job, with what its plan says', () => {
  const summary =
    '7 of 7 cases and 34 of 34 probes correct, largest error of the cases 1.82e-3; timed on the emulator (no GPU time); plan merge: no hard gate failed, 1 of 4 not measured ("Matches the champion"), 1 warning';
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 80, rows: 24, now: SAMPLE_START_MS }) });
  for (const event of eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finished', value: { outcome: Outcome.PASSED, summary } },
  ]))
    store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  const { state, log, search } = store;
  const rows = runView({ state, log, search }, { width: 76, height: 18 }).body.map((row) => rowText(row).trimEnd());
  const verdict = rows.slice(
    0,
    rows.findIndex((row) => row.startsWith('correct')),
  );
  expect(verdict.map((row) => row.trim()).join(' ')).toBe(`✓ passed  ${summary}`);
});
