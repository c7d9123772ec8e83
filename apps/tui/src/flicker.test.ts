/**
 * A terminal emulator receives every chunk that the built program writes, and the screen is checked between the chunks.
 * Every state that a person could see must be a whole screen.
 */
/* eslint-disable flashcore/no-fixed-wait -- flicker can appear only in the time between two keys */
import { Terminal } from '@xterm/headless';
import { afterEach, expect, test } from 'vitest';
import { SIZE, openBudgetProgram, sleep, type BudgetProgram } from './testing/budget-program.ts';

// The message row is blank if there is no message.
const MESSAGE_ROW = SIZE.rows - 2;
const CLEARS_SCREEN = /\u001b\[[23]J/;

let program: BudgetProgram;
afterEach(() => program.close());

test('during a flood of lines, no row with content is ever blank, and nothing clears the screen', async () => {
  const terminal = new Terminal({ cols: SIZE.columns, rows: SIZE.rows, allowProposedApi: true });
  const pieces: { readonly data: string; readonly blank: readonly number[] }[] = [];
  const blankRows = (): number[] => {
    const { active } = terminal.buffer;
    return Array.from({ length: SIZE.rows }, (_, row) => row).filter(
      (row) => row !== MESSAGE_ROW && (active.getLine(active.viewportY + row)?.translateToString(true) ?? '') === '',
    );
  };
  program = await openBudgetProgram({
    onData: (data) => terminal.write(data, () => pieces.push({ data, blank: blankRows() })),
  });
  // The first frame arrives in several chunks.
  await expect.poll(() => pieces.at(-1)?.blank, { timeout: 5_000 }).toEqual([]);
  const whole = pieces.length;
  program.server.rate = 5_000;
  for (let turn = 0; turn < 40; turn++) {
    await sleep(60);
    program.pty.write(String(1 + (turn % 8)));
  }
  await sleep(200);
  const watched = pieces.slice(whole);
  console.info(
    `flicker: ${watched.length} pieces, ${watched.reduce((sum, { data }) => sum + data.length, 0)} characters, blank rows in ${watched.filter(({ blank }) => blank.length > 0).length}`,
  );
  expect(watched.length).toBeGreaterThan(30);
  expect(watched.filter(({ data, blank }) => blank.length > 0 || CLEARS_SCREEN.test(data))).toEqual([]);
});
