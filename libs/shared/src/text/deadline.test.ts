import { expect, test } from 'vitest';
import { DeadlinePassed, withinDeadline } from './deadline.ts';

test('withinDeadline() gives what the work gives, and its error', () => {
  expect(withinDeadline(1_000, () => withinDeadline(1_000, () => 'inner') + ', outer')).toBe('inner, outer');
  expect(() =>
    withinDeadline(1_000, () => {
      throw new TypeError('its own');
    }),
  ).toThrow(TypeError);
});

test('a regular expression without end is stopped, and the next work is done', () => {
  const started = performance.now();
  expect(() => withinDeadline(200, () => /^(a+)+$/.test(`${'a'.repeat(200)}!`))).toThrow(DeadlinePassed);
  expect(performance.now() - started).toBeLessThan(5_000);
  expect(withinDeadline(1_000, () => 7)).toBe(7);
});
