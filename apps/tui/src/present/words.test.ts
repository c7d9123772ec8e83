import { ComparisonVerdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { comparisonAnswer, reasonText, withShortNames } from './words.ts';

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

test('finding kinds in a reason become words, and other capitals stay', () => {
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
