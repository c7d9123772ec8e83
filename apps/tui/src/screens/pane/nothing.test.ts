import { JobKind, JobState, Outcome, Phase } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { initialState, type AppState } from '../../state/app-state.ts';
import { jobViewOf, type JobView } from '../../state/job-view.ts';
import { nothingText, type Subject } from './nothing.ts';

const NAME = 'jobs/1';

interface Told {
  ended?: Outcome;
  more?: Partial<AppState>;
}

function textOf(subject: Subject, kind: JobKind, phase: Phase, { ended, more }: Told = {}): string {
  const job: JobView = {
    ...jobViewOf({
      name: NAME,
      kind,
      label: 'k',
      kernelId: 'k',
      state: ended === undefined ? JobState.RUNNING : JobState.ENDED,
      outcome: ended ?? Outcome.UNSPECIFIED,
      summary: '',
    }),
    ...(ended !== undefined && { endTime: 1 }),
    phases: [{ phase, variant: '', steps: 0, done: 0, startTime: 0 }],
  };
  const start = initialState({ runner: { label: 'here', embedded: true }, columns: 80, rows: 24, now: 0 });
  return nothingText({ ...start, ...more, attached: NAME, views: { [NAME]: job } }, subject);
}

test('the quick check of a watched save says that the experiment follows by itself', () => {
  const watching = { folder: '/k', job: NAME };
  expect(textOf('gates', JobKind.VERIFY, Phase.VERIFY)).toMatch(/Enter in 7 runs all phases/);
  expect(textOf('gates', JobKind.VERIFY, Phase.VERIFY, { more: { watching } })).toBe(
    'The quick check of a save does not evaluate gates; if it passes, the whole experiment follows.',
  );
});

test('a job that was cancelled in its first case does not claim that the case is running', () => {
  expect(textOf('correct', JobKind.VERIFY, Phase.VERIFY)).toBe('The first case is running.');
  expect(textOf('correct', JobKind.VERIFY, Phase.VERIFY, { ended: Outcome.CANCELLED })).toBe(
    'The job ended (cancelled) before any case ended.',
  );
});

test('a job without a verification or a benchmark does not say that it waits for one', () => {
  const { BUILD, BENCHMARK, PROFILE } = Phase;
  expect([
    textOf('counters', JobKind.EXPERIMENT, BENCHMARK),
    textOf('counters', JobKind.PROFILE, BUILD),
    textOf('counters', JobKind.PROFILE, PROFILE),
    textOf('latency', JobKind.EXPERIMENT, BUILD),
    textOf('latency', JobKind.BENCHMARK, BUILD),
  ]).toEqual([
    'Counters are read after the benchmark.',
    'Counters are read after the build.',
    'The counters are being read.',
    'Samples are taken after the verification.',
    'Samples are taken after the build.',
  ]);
});
