/** fa-tui on a screen, and a check that the screen is complete. */
import { join } from 'node:path';
import { Terminal } from '@flashcore/tools/terminal';
import { ROOT, type Home } from './home.ts';

export const FA_TUI = join(ROOT, 'node_modules/.bin/fa-tui');

export interface ScreenOptions {
  args?: string[];
  columns?: number;
  rows?: number;
  env?: Record<string, string>;
}

export const openScreen = (
  home: Home,
  { args = [], columns = 120, rows = 40, env = {} }: ScreenOptions = {},
): Terminal => new Terminal(FA_TUI, args, { columns, rows, cwd: ROOT, env: { ...home.env, ...env } });

/** Rows that are too long or whose box has no right edge, and a message if the last row has no key hints. */
export function cutLines(terminal: Terminal): string[] {
  const lines = terminal.lines();
  const cut = lines.filter(
    (line) => [...line].length > terminal.screen.cols || (/^[│╭╰]/.test(line) && !/[│╮╯]$/.test(line)),
  );
  return lines.at(-1)!.trim() === '' ? [...cut, 'no key hints in the last row'] : cut;
}
