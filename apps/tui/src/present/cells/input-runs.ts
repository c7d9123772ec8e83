import { cellWidth, takeCells } from './cell-text.ts';
import { run, type Role, type Row } from './row.ts';

/** A typed text with its cursor, in at most `width` cells: a block at the end, a thin bar between two characters. */
export function inputRuns([before, behind]: readonly [string, string], width: number, role?: Role): Row {
  const room = width - 1;
  const fits = cellWidth(before + behind) <= room;
  const right = fits ? behind : takeCells(behind, Math.floor(room / 2));
  const left = fits ? before : lastCells(before, room - cellWidth(right));
  return [run(left, role), run(right === '' ? '█' : '▏', 'accent'), ...(right === '' ? [] : [run(right, role)])];
}

/** The end of a text, because that is where the cursor is. */
const lastCells = (text: string, width: number): string =>
  cellWidth(text) <= width
    ? text
    : `…${Array.from(text)
        .slice(-(width - 1))
        .join('')}`;
