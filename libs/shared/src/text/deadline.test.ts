import { expect, test } from 'vitest';
import { DeadlinePassed, withinDeadline } from './deadline.ts';

test("withinDeadline() returns the work's result and throws its error", () => {
  expect(withinDeadline(1_000, () => withinDeadline(1_000, () => 'inner') + ', outer')).toBe('inner, outer');
  expect(() =>
    withinDeadline(1_000, () => {
      throw new TypeError('its own');
    }),
  ).toThrow(TypeError);
});

test('an endless regular expression is stopped, and later work still runs', () => {
  const started = performance.now();
  expect(() => withinDeadline(200, () => /^(a+)+$/.test(`${'a'.repeat(200)}!`))).toThrow(DeadlinePassed);
  expect(performance.now() - started).toBeLessThan(5_000);
  expect(withinDeadline(1_000, () => 7)).toBe(7);
});

test('work that had to wait for the processor is started again with more time', () => {
  const memory = new Int32Array(new SharedArrayBuffer(4));
  let begun = 0;
  const wait = (): string => {
    begun += 1;
    return Atomics.wait(memory, 0, 0, 60);
  };
  expect(withinDeadline(50, wait)).toBe('timed-out');
  expect(begun).toBeGreaterThan(1);
});
