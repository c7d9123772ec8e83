import { create } from '@bufbuild/protobuf';
import { Phase, Verdict, JobEventSchema } from '@flashcore/shared/contract';
import { afterEach, expect, test, vi } from 'vitest';
import { reduceJob } from '../state/job-reducer.ts';
import { jobViewOf } from '../state/job-view.ts';
import { SAMPLE_START_MS, eventsOf } from '../testing/sample-job.ts';
import { PLAIN } from '../testing/result-fixtures.ts';
import { formatFor } from '../present/plain/report-format.ts';
import { LiveProgress } from './live-progress.ts';

const shape = { batch: 1, heads: 8, sequenceLength: 512, headDim: 64 };

function recorder(isTTY: boolean) {
  const written: string[] = [];
  return { written, stream: { isTTY, write: (text: string) => void written.push(text) } };
}

const EVENTS = eventsOf([
  { case: 'created', value: { job: { name: 'jobs/1' } } },
  { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=1' } },
  { case: 'logLine', value: { source: 'nvcc', text: 'ptxas info \u001b[31m: 40 registers' } },
  { case: 'verifyProgress', value: { caseIndex: 5, caseCount: 7, seedIndex: 1, seedCount: 5, shape } },
  {
    case: 'caseResult',
    value: { shape, verdict: Verdict.PASS, maxAbsError: 4.88e-4, meanAbsError: 1.31e-5, elements: 1n },
  },
]);

/** The progress output of a job with these events. */
function progressOf(isTTY: boolean, events = EVENTS, format = PLAIN) {
  const { written, stream } = recorder(isTTY);
  let job = jobViewOf({ name: 'jobs/1', kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' });
  const progress = new LiveProgress(stream, format, () => job);
  const take = (more: typeof EVENTS): void =>
    more.forEach((event) => {
      job = reduceJob(job, event);
      progress.show(event);
    });
  take(events);
  return { written, progress, take };
}

afterEach(() => vi.useRealTimers());

test("progress in a log is whole lines, without the compiler's escape sequences", () => {
  const { written, progress } = progressOf(false);
  progress.stop();
  expect(written.join('')).toBe(
    [
      'jobs/1',
      'build USE_WMMA=1',
      '  nvcc: ptxas info : 40 registers',
      '  1x8x512x64: pass, max 4.88e-4, mean 1.31e-5',
      '',
    ].join('\n'),
  );
});

test('in a terminal, long lines break between words; in a log they stay whole', () => {
  const long = eventsOf([
    { case: 'created', value: { job: { name: 'jobs/1' } } },
    { case: 'logLine', value: { source: 'runner', text: 'compiling libcuda_emu.so and attention_reference.so' } },
  ]);
  const narrow = { ...PLAIN, width: 40, appends: true };
  const told = (isTTY: boolean): string[] => {
    const { written, progress } = progressOf(isTTY, long, narrow);
    progress.stop();
    return written;
  };
  expect(told(true)).toEqual(['jobs/1\n', '  runner: compiling libcuda_emu.so and\n', '    attention_reference.so\n']);
  expect(told(false)).toHaveLength(2);
});

test('a dumb terminal and a screen reader get plain lines, as a log file does', () => {
  const appending = progressOf(true, EVENTS, { ...PLAIN, appends: true });
  appending.progress.stop();
  const log = progressOf(false);
  log.progress.stop();
  expect(appending.written).toEqual(log.written);
  expect(
    [{ TERM: 'dumb' }, { INK_SCREEN_READER: 'true' }, { TERM: 'xterm' }].map(
      (environment) => formatFor({ isTTY: true }, { color: 'auto', environment }).appends,
    ),
  ).toEqual([true, true, false]);
});

test('in a terminal, the status line is redrawn below the lines and disappears at the end', () => {
  const { written, progress } = progressOf(true, EVENTS.slice(0, 4));
  progress.line('a line');
  progress.stop();
  const text = written.join('');
  expect(text).toContain('verify case 1/7 1x8x512x64 seed 2/5');
  expect(written.at(-1)).toBe('\r\u001b[2K');
  expect(written.filter((piece) => piece.endsWith('\n')).every((piece) => !piece.startsWith('\r'))).toBe(true);
});

test('progress shows the number of finished cases, whatever their order in the list', () => {
  const { written, progress, take } = progressOf(true);
  take(
    eventsOf([
      { case: 'verifyProgress', value: { caseIndex: 0, caseCount: 7, seedIndex: 0, seedCount: 5, shape } },
    ]).map((event) => ({ ...event, sequence: 6n })),
  );
  progress.line('a line');
  progress.stop();
  expect(written.join('')).toContain('verify case 2/7 1x8x512x64 seed 1/5');
});

test('progress shows how far a long launch has come, and the forecast of its end if there is one', () => {
  vi.useFakeTimers({ now: 0 });
  const { written, progress, take } = progressOf(false, EVENTS.slice(0, 2));
  const launches = eventsOf(
    [{ blocks: 512n }, { blocks: 512n, blocksBegun: 130n, secondsLeft: 90.4 }].map(
      (launch) =>
        ({ case: 'verifyProgress', value: { caseCount: 1, seedIndex: 0, seedCount: 1, shape, ...launch } }) as const,
    ),
  );
  for (const [index, event] of launches.entries()) {
    vi.setSystemTime(6_000 * (index + 1));
    take([{ ...event, sequence: BigInt(3 + index) }]);
  }
  progress.stop();
  expect(written.slice(2)).toEqual([
    '  verify case 1/1 1x8x512x64 seed 1/1, kernel 0 %\n',
    '  verify case 1/1 1x8x512x64 seed 1/1, kernel 25 %, about 1 min 30 s left\n',
  ]);
});

test('unknown events are ignored', () => {
  const { written } = progressOf(false, [create(JobEventSchema, { sequence: 1n })]);
  expect(written).toEqual([]);
});

test('in a log, the activity is printed once in five seconds rather than for every seed', () => {
  vi.useFakeTimers({ now: 0 });
  const { written, progress, take } = progressOf(false, EVENTS.slice(0, 2));
  const seeds = eventsOf(
    Array.from(
      { length: 14 },
      (_, seedIndex) =>
        ({ case: 'verifyProgress', value: { caseIndex: 5, caseCount: 7, seedIndex, seedCount: 14, shape } }) as const,
    ),
  );
  for (const [index, event] of seeds.entries()) {
    vi.setSystemTime(1_000 * (index + 1));
    take([{ ...event, sequence: BigInt(3 + index) }]);
  }
  progress.stop();
  expect(written.slice(2)).toEqual([
    '  verify case 1/7 1x8x512x64 seed 5/14\n',
    '  verify case 1/7 1x8x512x64 seed 10/14\n',
  ]);
});

test("the status line counts from the phase's start, not from the moment at which a command begins to watch", () => {
  vi.useFakeTimers({ now: SAMPLE_START_MS + 200 + 70_000 });
  const { written, progress } = progressOf(true, EVENTS.slice(0, 2));
  vi.advanceTimersByTime(1_000);
  expect(written.at(-1)).toContain(' build  1 min 11 s');
  expect([progress.clear(), progress.clear()]).toEqual([true, false]);
  progress.stop();
});
