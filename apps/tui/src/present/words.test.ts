import { ComparisonVerdict, JobState, Outcome } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { comparisonAnswer, jobMark, outcomeWord, reasonText, summaryText, withShortNames } from './words.ts';

test('a comparison that was not judged says so only once', () => {
  expect(
    comparisonAnswer({
      verdict: ComparisonVerdict.NOT_JUDGED,
      reason: '1x4x128x64: emulator times are not GPU times',
    }),
  ).toBe('not judged: 1x4x128x64: emulator times are not GPU times');
  expect(comparisonAnswer({ verdict: ComparisonVerdict.FASTER, reason: '1.05 in time' })).toBe('faster: 1.05 in time');
});

test('job names in a text are shortened as elsewhere on the screen', () => {
  expect(withShortNames('busy: jobs/cd695de1-ea32-4e84-a80c-9e038af3271b')).toBe('busy: cd695de1');
});

test('kinds of findings in a reason are written as words, and other capitals stay', () => {
  expect(
    [
      'NAN_OUTPUT: all NaN; DEADLOCK: at k.cu:9',
      'CUDA_ERROR_ASSERT: 3',
      'wrong on 1x1x64x64: WRONG_RESULT: 9 of 64',
      'not run: OUT_OF_BOUNDS on 1x1x64x64 stopped the run',
      'first 1x1x64x64 (RACE: thread 3)',
    ].map(reasonText),
  ).toEqual([
    'NaN output: all NaN; deadlock: at k.cu:9',
    'CUDA_ERROR_ASSERT: 3',
    'wrong on 1x1x64x64: wrong result: 9 of 64',
    'not run: out of bounds on 1x1x64x64 stopped the run',
    'first 1x1x64x64 (race: thread 3)',
  ]);
});

test('a race is reported as a race rather than a wrong result, because the result may be right', () => {
  const raced = { state: JobState.ENDED, outcome: Outcome.WRONG_RESULT, summary: 'RACE: thread 0 writes byte 8' };
  expect([outcomeWord(raced), jobMark(raced).word, summaryText(raced)]).toEqual([
    'race',
    'race',
    'thread 0 writes byte 8',
  ]);
  expect(outcomeWord({ ...raced, summary: 'UNINITIALISED_READ: of S_smem' })).toBe('uninitialised read');
  expect(outcomeWord({ ...raced, summary: 'WRONG_RESULT: 9 of 64' })).toBe('wrong result');
  // An output that is NaN is a wrong result, whatever caused it.
  expect(outcomeWord({ ...raced, summary: 'NAN_OUTPUT: all' })).toBe('wrong result');
  expect(outcomeWord(undefined)).toBe('unspecified');
});
