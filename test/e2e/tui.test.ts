/**
 * fa-tui in a real pseudo-terminal with a real runner: every view by keyboard, nothing cut off, the terminal left as it
 * was.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Terminal } from '@flashcore/tools/terminal';
import { ALL_TESTS, inFull, missing, until } from '@flashcore/shared/testing';
import { Home } from '../support/home.ts';
import { cutLines, openScreen } from '../support/screens.ts';

const VIEWS = ['Run', 'Correct', 'Latency', 'Profile', 'Gates', 'Jobs', 'Kernels', 'Host'];
const SIZES = [
  [80, 24],
  [120, 40],
  [200, 60],
] as const;
/** The short form has the largest size; goldens.test.tsx draws the views at the smallest one. */
const TRIED = inFull(SIZES, ([columns]) => columns === 200);
/** The plan of the short form does without probes and drawn shapes, which take longer than everything else. */
const PLAN = ALL_TESTS ? [] : ['--plan', 'explore'];
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
    ...PLAN,
  ]);
  expect(exitCode, stderr).toBe(0);
}, 120_000);
afterAll(() => home[Symbol.asyncDispose]());

const HELP = /search: █/;

test.each(TRIED)(
  'at %i x %i every view opens, and q ends the program',
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
      // Escape is distinguished from an escape sequence by a pause, so the next key waits until Escape has worked.
      await until(() => !HELP.test(terminal.text()));
      terminal.type('q');
      expect(await terminal.exit).toBe(0);
      // The last output leaves the alternate screen, then shows the cursor.
      expect(terminal.output.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(
        terminal.output.lastIndexOf('\u001b[?1049h'),
      );
      expect(terminal.output.lastIndexOf('\u001b[?25h')).toBeGreaterThan(terminal.output.lastIndexOf('\u001b[?25l'));
      // The headless screen processes the output with a delay.
      await until(() => terminal.screen.buffer.active.type === 'normal');
    } finally {
      terminal.kill('SIGKILL');
    }
  },
  60_000,
);

test.skipIf(missing('nvcc') && missing('clang')).each(TRIED)(
  '%i x %i: i shows the PTX of the line under the cursor, and pressed again it shows the profile',
  async (columns, rows) => {
    const terminal = openScreen(home, { columns, rows });
    const shownLine = (): string | undefined => /instructions? of line (\d+)/.exec(terminal.text())?.[1];
    try {
      await terminal.waitFor(/fa_v1_baseline/);
      terminal.type('4');
      await terminal.waitFor(/i PTX/);
      terminal.type('i');
      await terminal.waitFor(/source and PTX[^]*instructions? of line/);
      const hottest = shownLine();
      // Only instructions of that line are marked, and the line's number is next to the first of them.
      await terminal.waitFor(new RegExp(`${hottest} ▸ [a-z]+[.\\w]* `));
      await expectWhole(terminal, rows);
      terminal.type('g');
      await until(() => shownLine() !== hottest);
      // If the table has lines of several files, each row also names its file.
      expect(terminal.text()).toMatch(new RegExp(`▸ .*\\b${shownLine()} `));
      terminal.type('H');
      await until(() => shownLine() === hottest);
      terminal.type('i');
      // On 24 rows the lines begin below the advice.
      await terminal.waitFor(/What to try next/);
      terminal.type('q');
      expect(await terminal.exit).toBe(0);
    } finally {
      terminal.kill('SIGKILL');
    }
  },
  60_000,
);

test('/ searches the log and filters the kernels, and a filter that is typed again replaces the one before', async () => {
  const terminal = openScreen(home);
  // The details of a kernel may name another one, so its row is known by the verdict, which is "-" before a run.
  const isListed = (kernel: string): boolean =>
    terminal.lines().some((line) => new RegExp(`flashcore_${kernel} +- `).test(line));
  try {
    // The view that was on the screen when fa-tui last ended.
    await terminal.waitFor(/\[\d \w+\]/);
    terminal.type('1');
    await terminal.waitFor(/1 Run {2}fa_v1_baseline/);
    terminal.type('/');
    await terminal.waitFor(/\n \/█/);
    terminal.type('p50');
    await terminal.waitFor(/\n \/p50█/);
    terminal.type('\r');
    await terminal.waitFor(/\/p50\/ \d+\/\d+ hits/);
    terminal.type('7');
    await terminal.waitFor(/flashcore_v6[^]*flashcore_v7/);
    for (const [typed, hidden] of [
      ['v6', 'v7'],
      ['v7', 'v6'],
    ] as const) {
      terminal.type('/');
      await terminal.waitFor(/\n \/.*█/);
      terminal.type(typed);
      // The list follows the typing, before Enter.
      await until(() => isListed(typed) && !isListed(hidden));
      terminal.type('\r');
      await terminal.waitFor(new RegExp(`only "${typed}"`));
    }
    terminal.type('\u001b');
    await until(() => isListed('v6') && isListed('v7'));
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
}, 60_000);

if (ALL_TESTS)
  test('N in 7 makes a kernel of yours, and after a visit a message and marks say what ended meanwhile', async () => {
    const copy = join(home.path, 'my_copy');
    const first = openScreen(home, { columns: 120, rows: 40 });
    try {
      await first.waitFor(/fa_v1_baseline/);
      first.type('7');
      await first.waitFor(/\[7 Kernels\]/);
      first.type('N');
      await first.waitFor(/name of your copy of /);
      first.type(`${copy}\r`);
      await first.waitFor(/my_copy is your copy of /);
      await first.waitFor(/▸ my_copy/);
      expect(readFileSync(join(copy, 'kernel.yaml'), 'utf8')).toMatch(/^id: my_copy$/m);
      first.type('q');
      expect(await first.exit).toBe(0);
    } finally {
      first.kill('SIGKILL');
    }
    // The newest of them is on the screen on return, so the other one is marked.
    for (let build = 0; build < 2; build++) expect(home.faTui(['build', copy]).exitCode).toBe(0);
    const second = openScreen(home, { columns: 120, rows: 40 });
    try {
      await second.waitFor(/Since \d\d:\d\d: 2 passed[^]*L shows the lab log/);
      second.type('L');
      // Both jobs are builds that passed.
      await second.waitFor(/Lab log since \d\d:\d\d[^]*No job to report: builds that passed are left out/);
      second.type('q');
      second.type('6');
      await second.waitFor(/✓ \* my_copy[^]*✓ • my_copy[^]*• ended since \d\d:\d\d/);
      second.type('q');
      expect(await second.exit).toBe(0);
    } finally {
      second.kill('SIGKILL');
    }
  }, 120_000);

test('fa-tui says that the terminal is too small', async () => {
  const terminal = openScreen(home, { columns: 50, rows: 12 });
  try {
    await terminal.waitFor(/too small/i);
    terminal.resize(80, 24);
    await terminal.waitFor(/\[\d \w+\]/); // The view that was on the screen when fa-tui last ended.
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
});

/**
 * Checks that the boxes are closed at their right edge in every row and that the last row has the key hints. Waits a
 * moment for a frame that is still being written.
 */
async function expectWhole(terminal: Terminal, rows: number): Promise<void> {
  await expect.poll(() => cutLines(terminal), { timeout: 2_000 }).toEqual([]);
  expect(terminal.lines()).toHaveLength(rows);
}
