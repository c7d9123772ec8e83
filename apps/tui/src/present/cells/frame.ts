/** A pane's border with its title above and a remark below. */
import { cellWidth, cutCells } from './cell-text.ts';
import { BLANK_ROW, fitRow, run, type Row } from './row.ts';

export interface Frame {
  readonly title: string;
  /** Text at the right end of the lower border, for example "12 of 40". */
  readonly remark?: string;
  /** The pane that receives keys has a bold border. */
  readonly focused?: boolean;
  /** Badge for something unusual, for example "SIMULATED". */
  readonly badge?: string;
}

/** `body` inside a border: exactly `height` rows of `width` cells, with one empty cell on both sides of the body. */
export function frame(
  { title, remark = '', focused = false, badge = '' }: Frame,
  body: readonly Row[],
  { width, height }: { width: number; height: number },
): Row[] {
  const role = focused ? 'focus' : 'border';
  const badgeCells = badge === '' ? 0 : cellWidth(badge) + 3;
  const shownTitle = cutCells(title, width - 5 - badgeCells);
  const topFill = width - 5 - cellWidth(shownTitle) - badgeCells;
  const top: Row = [
    run('╭─ ', role),
    run(shownTitle, focused ? 'focus' : 'title'),
    run(' ', role),
    ...(badge === '' ? [] : [run(` ${badge} `, 'simulated'), run('─', role)]),
    run(`${'─'.repeat(Math.max(0, topFill))}╮`, role),
  ];
  const shownRemark = remark === '' ? '' : ` ${cutCells(remark, width - 6)} `;
  const bottom: Row = [
    run(`╰${'─'.repeat(width - 3 - cellWidth(shownRemark))}`, role),
    run(shownRemark, 'dim'),
    run('─╯', role),
  ];
  const inside = Array.from({ length: height - 2 }, (_, index): Row => [
    run('│ ', role),
    ...fitRow(body[index] ?? BLANK_ROW, width - 4),
    run(' │', role),
  ]);
  return [top, ...inside, bottom];
}

/** Cells and rows for the body of a frame of that size. */
export const insideOf = ({ width, height }: { width: number; height: number }): { width: number; height: number } => ({
  width: width - 4,
  height: height - 2,
});
