/** The lab log over the view: the text that `fa-tui report --template lab-log` prints in a terminal. */
import type { Block } from '../../present/blocks.ts';
import { sanitize } from '../../present/cells/cell-text.ts';
import { fitRow, textRow, type Row } from '../../present/cells/row.ts';
import { insideOf } from '../../present/cells/frame.ts';
import { formatTimeOfDay } from '../../present/numbers.ts';
import { plainRows } from '../../present/plain/plain-painter.ts';
import type { AppState, Overlay } from '../../state/app-state.ts';
import { scrolled, type PaneContent, type Size } from '../pane/view.ts';
import { CHROME_ROWS } from './layout.ts';
import { screenOf } from './message.ts';

type LabLog = Extract<Overlay, { kind: 'lab-log' }>;

export function labLogPane({ blocks, since, top }: LabLog, { width, height }: Size): PaneContent {
  const title = since === 0 ? 'Lab log' : `Lab log since ${formatTimeOfDay(since).slice(0, 5)}`;
  if (blocks === undefined) return { title, remark: 'Esc closes', body: [textRow('Reading the jobs …', 'dim')] };
  return scrolled(title, labLogRows(blocks, width), { width, height, top });
}

/** The rows of a log that stays the same while it is scrolled, and the width that they were made for. */
const made = new WeakMap<readonly Block[], { readonly width: number; readonly rows: readonly Row[] }>();

function labLogRows(blocks: readonly Block[], width: number): readonly Row[] {
  const known = made.get(blocks);
  if (known?.width === width) return known.rows;
  // The pane's border has the title.
  const below = blocks.filter((block) => block.kind !== 'heading' || block.level !== 1);
  const rows = plainRows(below, { width, colors: true, ascii: false }).map((row) =>
    fitRow(
      row.map((piece) => ({ ...piece, text: sanitize(piece.text) })),
      width,
    ),
  );
  made.set(blocks, { width, rows });
  return rows;
}

/** How far the log can be scrolled, and by how much a page scrolls it. */
export function labLogScroll(
  state: AppState,
  { blocks = [] }: LabLog,
): { readonly last: number; readonly page: number } {
  const { columns, rows } = screenOf(state);
  const { width, height } = insideOf({ width: columns, height: rows - CHROME_ROWS });
  return { last: Math.max(0, labLogRows(blocks, width).length - height), page: Math.max(1, height - 2) };
}
