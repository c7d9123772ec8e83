/** A table with a cursor in a window of rows. */
import type { Row } from '../../present/cells/row.ts';
import { fitRow, run, selectRow, windowStart } from '../../present/cells/row.ts';
import { table, type Column } from '../../present/cells/table.ts';

const CURSOR_CELLS = 2;

interface ListLook {
  width: number;
  height: number;
  selected: number;
  focused: boolean;
}

/**
 * The header and the rows that fit into `height`, including the selected one. That row is marked by "▸", and in the
 * focused pane also by inverse video. "↑" and "▾" mark the ends behind which there are more rows.
 */
export function list<Item>(
  columns: readonly Column<Item>[],
  items: readonly Item[],
  { width, height, selected, focused }: ListLook,
): Row[] {
  const laid = table(columns, items, width - CURSOR_CELLS);
  const visible = Math.max(0, height - 1);
  const start = windowStart({
    from: Math.max(0, selected),
    to: Math.max(0, selected) + 1,
    count: items.length,
    height: visible,
  });
  const shown = laid.rows.slice(start, start + visible);
  const rows = shown.map((row, index): Row => {
    const isSelected = start + index === selected;
    // "▾" marks the last row shown if there are more rows below it.
    const rest = index === shown.length - 1 && start + shown.length < items.length ? '▾ ' : '  ';
    const whole: Row = [run(isSelected ? '▸ ' : rest), ...row];
    return isSelected && focused ? selectRow(whole, width) : fitRow(whole, width);
  });
  return [[run(start > 0 ? '↑ ' : '  '), ...laid.header], ...rows].slice(0, height);
}

/** Fewest rows of the upper list: the header and two items. */
const LEAST_UPPER = 3;

/** A list above the details of its selected item. `share` limits the list's share of the height. */
export const upperList = <Item>(
  columns: readonly Column<Item>[],
  items: readonly Item[],
  { share, ...look }: ListLook & { share: number },
): Row[] =>
  list(columns, items, {
    ...look,
    height: Math.min(items.length + 1, Math.max(LEAST_UPPER, Math.floor(look.height * share))),
  });
