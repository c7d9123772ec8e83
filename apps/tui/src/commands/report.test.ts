import path from 'node:path';
import { expect, test } from 'vitest';
import { measuredFolder } from '@flashcore/shared/testing';
import { CommandContext } from './context.ts';
import { report, sinceSeconds } from './report.ts';

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

const JOB = path.join(measuredFolder('h200-decide-2026-11-22'), 'decide.flashcore_v11.final.json');

test.each([
  ['a terminal, as text', true, undefined, /^Lab log$/m],
  ['a pipe, as Markdown', false, undefined, /^# Lab log$/m],
  ['a terminal with --format markdown, as Markdown', true, 'markdown', /^# Lab log$/m],
] as const)('the lab log is written to %s', async (_, isTTY, format, wanted) => {
  let written = '';
  const stdout = { isTTY, columns: 80, write: (text: string) => (written += text) };
  const context = new CommandContext(
    { stdin: {}, stdout, stderr: { write: () => true }, environment: {} },
    { color: 'never' },
  );
  await report([], { template: 'lab-log', from: [JOB], color: 'never', ...(format && { format }) }, context);
  expect(written).toMatch(wanted);
  expect(written.includes('\\_')).toBe(!isTTY || format !== undefined);
  // A table that is too wide for the terminal is a list instead, so that nothing is cut.
  expect(written).not.toContain('…');
});
