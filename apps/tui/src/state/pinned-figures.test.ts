import { JobState, Outcome, Verdict, type JobEvent } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { plainLines } from '../present/plain/plain-painter.ts';
import { PLAIN } from '../testing/result-fixtures.ts';
import { figureBlocks } from '../present/sections/paired.ts';
import { Store } from '../session/store.ts';
import { eventsOf } from '../testing/sample-job.ts';
import { initialState } from './app-state.ts';
import { estimatesText, figureGroups } from './pinned-figures.ts';
import { pinnedComparison, type PinnedComparison } from './pinned.ts';

const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64, causal: false };

interface Ran {
  readonly problem?: string;
  readonly dtype?: string;
  readonly seeds?: readonly string[];
  readonly error?: number;
  readonly conflicts?: number;
  readonly profiled?: number;
  /** Microseconds that a model estimates, or why it has none. */
  readonly estimate?: number | string;
}

const job = (
  name: string,
  { problem = '', dtype = '', seeds = ['1'], error = 2e-3, conflicts = 0, profiled = 64, estimate }: Ran = {},
): JobEvent[] =>
  eventsOf(
    [
      { case: 'created', value: { job: { name, label: name } } },
      { case: 'buildResult', value: { succeeded: true, entries: [{ entry: 'k', staticSmemBytes: 576 }] } },
      { case: 'caseResult', value: { shape, verdict: Verdict.PASS, maxAbsError: error } },
      { case: 'verifyResult', value: { passedCases: 1, seeds: [...seeds] } },
      {
        case: 'profileResult',
        value: {
          verdict: Verdict.PASS,
          shape: { ...shape, sequenceLength: profiled },
          metrics: [{ name: 'smem_bank_conflict_percent', value: conflicts, unit: '%' }],
          ...(estimate !== undefined && {
            estimate: {
              device: 'NVIDIA H200',
              ratioErrorPercent: 8.4,
              ...(typeof estimate === 'number' ? { latencyUs: estimate } : { missing: estimate }),
            },
          }),
        },
      },
      {
        case: 'finished',
        value: {
          outcome: Outcome.PASSED,
          result: { provenance: { problem, dtype, inputsVersion: 'flashcore-inputs 9' } },
        },
      },
    ],
    name,
  );

function compared(pinned: Ran, shown: Ran): PinnedComparison {
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 120, rows: 40, now: 0 }) });
  for (const event of [...job('pinned', pinned), ...job('shown', shown)]) store.dispatch({ type: 'job-event', event });
  expect(store.state.views['shown']?.state).toBe(JobState.ENDED);
  store.dispatch({ type: 'attach', job: 'shown' });
  store.dispatch({ type: 'pin', job: 'pinned' });
  return pinnedComparison(store.state)!;
}

/** All figures of the comparison as text, one space between the words. */
function figures(pinned: Ran, shown: Ran): string {
  const groups = figureGroups(compared(pinned, shown));
  const lines = plainLines(figureBlocks(groups, { before: 'pinned', after: 'shown' }), PLAIN);
  return lines.join('\n').replace(/ +/g, ' ');
}

test('errors have a change only if both jobs had the same inputs', () => {
  const changes = { error: 1e-3 };
  expect(figures({}, changes)).toMatch(/Correctness\n+.*change[^]*largest error 2.00e-3 1.00e-3 -50 %/);
  const drawn = figures({}, { ...changes, seeds: ['2'] });
  expect(drawn).toMatch(/Correctness *not compared: each job drew its own random inputs/);
  expect(drawn).toMatch(/largest error 2.00e-3 1.00e-3 *\n/);
});

test('a percentage changes by points, in either direction', () => {
  expect(figures({}, { conflicts: 3.331 })).toMatch(/smem_bank_conflict_percent 0 3.331 \+3.33 points/);
  expect(figures({ conflicts: 3.331 }, {})).toMatch(/smem_bank_conflict_percent 3.331 0 -3.33 points/);
});

test('counters of launches of different shapes have no change', () => {
  expect(figures({}, { profiled: 128 })).toMatch(
    /Hardware counters *not compared: profiled at 1x2x64x64 and at 1x2x128x64/,
  );
});

test.each([
  [{ problem: 'rmsnorm' }, 'different problems: rmsnorm and attention'],
  [{ dtype: 'bf16' }, 'different dtypes: bf16 and fp16'],
])('no change is shown between a job of %j and a job of plain attention in fp16', (pinned, reason) => {
  const text = figures(pinned, { error: 1e-3, conflicts: 2 });
  expect(text.match(new RegExp(`not compared: ${reason}`, 'g'))).toHaveLength(3);
  expect(text).not.toMatch(/change|[-+]\d+(\.\d+)? (%|points)/);
});

test('estimates are compared, with the error of their ratio', () => {
  expect(figures({ estimate: 20.6 }, { estimate: 27.79 })).toMatch(
    /Estimated time at 1x2x64x64, by a model, not measured\s+the ratio of two builds is 8 % off on average\n.*change\n.*hot on NVIDIA H200 20.60 us 27.79 us \+34.9 %/,
  );
  expect(estimatesText(compared({ estimate: 20.6 }, { estimate: 27.79 }))).toBe(
    'Estimated hot at 1x2x64x64 on NVIDIA H200: 20.60 us pinned, 27.79 us shown, +35 %; by a model, and the ratio of two builds is 8 % off on average.',
  );
});

test('two jobs without estimates say why there are none', () => {
  const missing = 'the model covers only the NVIDIA H200, and this build is for sm_89';
  const texts = [
    compared({ estimate: missing }, { estimate: missing }),
    compared({ estimate: missing }, { estimate: 27.79 }),
    compared({}, { estimate: 27.79 }),
    compared({}, {}),
  ].map(estimatesText);
  expect(texts).toEqual([
    `No estimates to compare: ${missing}.`,
    `No estimates to compare: the pinned job has none: ${missing}.`,
    'No estimates to compare: the pinned job has no profile.',
    '',
  ]);
  expect(figures({ estimate: missing }, { estimate: 1 }).replaceAll(/\s+/g, ' ')).toContain(
    `not compared: the pinned job has none: ${missing}`,
  );
});
