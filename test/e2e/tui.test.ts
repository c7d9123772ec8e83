/**
 * fa-tui in a real pseudo-terminal against a real runner: every view by keyboard, nothing cut, the terminal left as it
 * was.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Terminal } from '@flashcore/tools/terminal';
import { until } from '@flashcore/shared/testing';
import { Home } from '../support/home.ts';
import { cutLines, openScreen } from '../support/screens.ts';

const VIEWS = ['Run', 'Correct', 'Latency', 'Profile', 'Gates', 'Jobs', 'Kernels', 'Host'];
const SIZES = [
  [80, 24],
  [120, 40],
  [200, 60],
] as const;
const home = new Home();

beforeAll(() => {
  const { exitCode, stderr } = home.faTui([
    'run',
    'fa_v1_baseline',
    '--seeds',
    '1',
    '--shape',
    '1x4x128x64',
    '--max-seconds',
    '0.2',
  ]);
  expect(exitCode, stderr).toBe(0);
}, 120_000);
afterAll(() => home[Symbol.asyncDispose]());

const HELP = /search: █/;

test.each(SIZES)(
  '%i x %i: every view, then q',
  async (columns, rows) => {
    const terminal = openScreen(home, { columns, rows });
    try {
      await terminal.waitFor(/fa_v1_baseline/);
      for (const [index, view] of VIEWS.entries()) {
        terminal.type(String(index + 1));
        await terminal.waitFor(new RegExp(`\\[${index + 1} ${view}\\]`));
        await expectWhole(terminal, rows);
      }
      terminal.type('?');
      await terminal.waitFor(HELP);
      await expectWhole(terminal, rows);
      terminal.type('\u001b');
      // Escape alone is told from a sequence by the time after it: the next key waits until it has worked.
      await until(() => !HELP.test(terminal.text()));
      terminal.type('q');
      expect(await terminal.exit).toBe(0);
      // Alternate screen left, cursor shown, in this order the last words.
      expect(terminal.output.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(
        terminal.output.lastIndexOf('\u001b[?1049h'),
      );
      expect(terminal.output.lastIndexOf('\u001b[?25h')).toBeGreaterThan(terminal.output.lastIndexOf('\u001b[?25l'));
      // The screen reads what was printed in its own time.
      await until(() => terminal.screen.buffer.active.type === 'normal');
    } finally {
      terminal.kill('SIGKILL');
    }
  },
  60_000,
);

test('a terminal that is too small is told so', async () => {
  const terminal = openScreen(home, { columns: 50, rows: 12 });
  try {
    await terminal.waitFor(/too small/i);
    terminal.resize(80, 24);
    await terminal.waitFor(/\[\d \w+\]/); // The view that was left last.
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
});

/**
 * Boxes are closed at their right edge in every row, and the last row holds the key hints; a frame that is still being
 * written gets a moment.
 */
async function expectWhole(terminal: Terminal, rows: number): Promise<void> {
  await expect.poll(() => cutLines(terminal), { timeout: 2_000 }).toEqual([]);
  expect(terminal.lines()).toHaveLength(rows);
}
