import { expect, test } from 'vitest';
import { didYouMean, nearestNames } from './nearest-names.ts';

const NAMES = ['fa_v1_baseline', 'fa_v2_wmma', 'flashcore_v5', 'flashcore_v6', 'flashcore_v10', 'fa_tc_s512'];

test('nearestNames() finds the intended name and no others', () => {
  expect(
    ['flashcore_v66', 'flashcore-v6', 'FA_V2', 'baseline', 'wmma', 'quicksort', ''].map((wanted) =>
      nearestNames(wanted, NAMES),
    ),
  ).toEqual([
    ['flashcore_v6', 'flashcore_v5', 'flashcore_v10'],
    ['flashcore_v6', 'flashcore_v5', 'flashcore_v10'],
    ['fa_v2_wmma'],
    ['fa_v1_baseline'],
    ['fa_v2_wmma'],
    [],
    [],
  ]);
  expect([didYouMean('fa_v2', NAMES), didYouMean('quicksort', NAMES)]).toEqual([' (did you mean "fa_v2_wmma"?)', '']);
});

test('a short word with half of its letters changed is not a typo', () => {
  expect(nearestNames('runn', ['run', 'tune', 'host'])).toEqual(['run']);
});

test('two swapped letters are one edit', () => {
  expect([nearestNames('rnu', ['run', 'tune']), nearestNames('tnue', ['run', 'tune'])]).toEqual([['run'], ['tune']]);
});

test('a single letter has no near names, so that all known names are listed instead', () => {
  expect(nearestNames('Q', ['B', 'H', 'S', 'D', 'causal'])).toEqual([]);
  expect(nearestNames('s', ['B', 'S'])).toEqual(['S']);
});
