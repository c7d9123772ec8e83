/**
 * The help lists every command of the table, those of this view and job first. Typing searches it, and Enter runs the
 * selected command.
 */
import { fitRow, run, selectRow, windowStart, wrapRows, type Row } from '../../present/cells/row.ts';
import { inputRuns } from '../../present/cells/input-runs.ts';
import { padCells } from '../../present/cells/cell-text.ts';
import { findCommands, isUsable, type Command } from '../../keymap/commands.ts';
import { partsOf } from '../../state/input-line.ts';
import type { AppState, Overlay } from '../../state/app-state.ts';
import { shellCommandsLike } from '../../state/shell-commands.ts';
import type { PaneContent, Size } from '../pane/view.ts';

const KEY_CELLS = 16;

export function helpPane(
  state: AppState,
  { query, after = 0, selected, here }: Extract<Overlay, { kind: 'help' }>,
  { width, height }: Size,
): PaneContent {
  const found = findCommands(query, { ...state, here });
  const rows = found.map((command, index) => commandRow(command, { width, state, selected: index === selected }));
  const visible = height - 2;
  const start = windowStart({ from: selected, to: selected + 1, count: rows.length, height: visible });
  const prompt: Row = [run('search: ', 'dim'), ...inputRuns(partsOf({ text: query, after }), width - 8, 'accent')];
  return {
    title: 'Help',
    remark: `${placeText(start, visible, rows.length)}type to search, Enter runs, Esc closes`,
    body: [
      prompt,
      [],
      ...(rows.length === 0
        ? wrapRows(`No key matches "${query}". ${inShell(query)}`, width, { role: 'warn' })
        : rows.slice(start, start + visible)),
      // Keeps the height while the search narrows the list.
      ...Array.from({ length: Math.max(0, visible - Math.max(1, rows.length)) }, (): Row => []),
    ].slice(0, height),
  };
}

/** Text such as "1-16 of 60, "; empty if the list has room for all. */
const placeText = (start: number, visible: number, count: number): string =>
  count <= visible ? '' : `${start + 1}-${start + visible} of ${count}, `;

function inShell(query: string): string {
  const names = shellCommandsLike(query);
  if (names.length === 0) return 'Commands for a shell: fa-tui --help; fa-tui new starts a kernel.';
  return `In a shell there is ${names.map((name) => `fa-tui ${name}`).join(', ')}; --help says what it takes.`;
}

interface CommandRowLook {
  width: number;
  state: AppState;
  selected: boolean;
}

function commandRow(command: Command, { width, state, selected }: CommandRowLook): Row {
  const { keys, help, group } = command;
  const usable = isUsable(command, state);
  const row: Row = [
    run(selected ? '▸ ' : '  '),
    run(padCells(keys.join(' '), KEY_CELLS), 'key'),
    run(' '),
    run(help, usable ? 'text' : 'dim'),
  ];
  const groupCells = group.length + 1;
  const padded = [...fitRow(row, width - groupCells), run(` ${group}`, 'dim')];
  return selected ? selectRow(padded, width) : padded;
}
