import { expect, test } from 'vitest';
import { sinceSeconds } from './report.ts';

const NOW = Date.parse('2026-11-22T12:00:00Z');

test.each([
  [undefined, 0],
  ['2026-11-21', Date.parse('2026-11-21T00:00:00Z') / 1000],
  ['2026-11-21T10:30Z', Date.parse('2026-11-21T10:30:00Z') / 1000],
  ['90m', NOW / 1000 - 5400],
  ['3d', NOW / 1000 - 3 * 86_400],
])('sinceSeconds() accepts %s', (text, seconds) => {
  expect(sinceSeconds(text, NOW)).toBe(seconds);
});

test.each(['yesterday', '3', '2026-13-45', '3y', '', '99999999d'])('sinceSeconds() refuses %s', (text) => {
  expect(() => sinceSeconds(text, NOW)).toThrow(`--since ${text}: must be a day`);
});
