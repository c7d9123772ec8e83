import { expect, test } from 'vitest';
import { launchCounts } from './profiling.ts';

const LAUNCH = { entry: 'attend', blocks: 2, counts: { instructions: 3 }, lines: { 'attend.cu:4': { lanes: 5 } } };

test('launchCounts() keeps the counts as they were sent and drops unknown fields', () => {
  expect(launchCounts([{ ...LAUNCH, more: 'bytes' }])).toEqual([LAUNCH]);
});

test.each([
  ['an object instead of an array', LAUNCH],
  ['a launch whose entry is not a text', [{ ...LAUNCH, entry: 1 }]],
  ['a count that is not a number', [{ ...LAUNCH, counts: { instructions: '3' } }]],
  ['a line that is not an object', [{ ...LAUNCH, lines: { 'attend.cu:4': null } }]],
])('launchCounts() refuses %s', (_, json) => {
  expect(() => launchCounts(json)).toThrow(TypeError);
});
