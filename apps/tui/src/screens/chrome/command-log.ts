/** The command log: for everything that keys started, cancelled or decided, the command line that does the same. */
import { formatTimeOfDay } from '../../present/numbers.ts';
import { sanitize } from '../../present/cells/cell-text.ts';
import { run, selectRow, windowStart, wrapRows, type Row } from '../../present/cells/row.ts';
import type { AppState, LoggedCommand, Overlay } from '../../state/app-state.ts';
import type { PaneContent, Size } from '../pane/view.ts';

const EMPTY = 'No key has started, cancelled or decided anything yet. Such keys add their command line here.';
/** Cells of a time such as "08:46:54", and of the row's head: the cursor's mark, the time and a gap. */
const TIME_CELLS = 8;
const HEAD_CELLS = 2 + TIME_CELLS + 2;

export function commandLogPane(
  { commandLog }: AppState,
  { selected }: Extract<Overlay, { kind: 'commands' }>,
  { width, height }: Size,
): PaneContent {
  const title = 'Command log';
  if (commandLog.length === 0) return { title, remark: 'Esc closes', body: wrapRows(EMPTY, width, { role: 'dim' }) };
  const entries = commandLog.map((command, index) => entryRows(command, { width, selected: index === selected }));
  const from = entries.slice(0, selected).flat().length;
  const rows = entries.flat();
  const to = from + (entries[selected]?.length ?? 0);
  const start = windowStart({ from, to, count: rows.length, height });
  return { title, remark: 'y copies, Esc closes', body: rows.slice(start, start + height) };
}

/** The rows of a command line. A long one wraps. */
function entryRows({ time, text }: LoggedCommand, { width, selected }: { width: number; selected: boolean }): Row[] {
  const head: Row = [run(selected ? '▸ ' : '  '), run(formatTimeOfDay(time).slice(0, TIME_CELLS), 'dim'), run('  ')];
  return wrapRows(sanitize(text), width - HEAD_CELLS, { hang: 2 }).map((line, index) => {
    const row: Row = [...(index === 0 ? head : [run(' '.repeat(HEAD_CELLS))]), ...line];
    return selected ? selectRow(row, width) : row;
  });
}
