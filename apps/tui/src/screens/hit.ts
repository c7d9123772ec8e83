/** Finds the item under a cell of the screen. */
import { cellWidth } from '../present/cells/cell-text.ts';
import { insideOf } from '../present/cells/frame.ts';
import { rowText, type Row } from '../present/cells/row.ts';
import { VIEWS, VIEW_TITLES, type ViewId } from '../state/app-state.ts';
import type { Snapshot } from '../state/log-search.ts';
import { tabsRow } from './chrome/header.ts';
import { isTooSmall, layoutOf, viewOf, type PaneBand, type PlacedPane } from './chrome/layout.ts';
import { screenOf } from './chrome/message.ts';
import { jobInRail } from './dashboard/jobs-rail.ts';
import { PANE_FUNCTIONS } from './views.ts';

const HEAD_ROWS = 2;

export interface Cell {
  readonly column: number;
  readonly row: number;
}

/** The view to show for a click, and the distance from its cursor to the item under the pointer. */
interface Hit {
  readonly view: ViewId;
  readonly by: number;
  /** The job under the cell, if the cell is in the rail, which shows only some of the listed jobs. */
  readonly job?: string | undefined;
}

export function hitOf(snapshot: Snapshot, cell: Cell): Hit | undefined {
  const { state } = snapshot;
  if (isTooSmall(state.ui)) return undefined;
  if (cell.row === HEAD_ROWS - 1) return tabUnder(snapshot, cell.column);
  const found = paneUnder(layoutOf(screenOf(state)), { column: cell.column, row: cell.row - HEAD_ROWS });
  if (found === undefined) return undefined;
  const { pane, row } = found;
  const view = viewOf(pane.id);
  if (pane.id === 'jobs-rail') return { view, by: 0, job: jobInRail(state, row - 1, insideOf(pane).height)?.name };
  // The log has no cursor to move.
  const by = view === 'run' ? 0 : itemsAway(PANE_FUNCTIONS[pane.id](snapshot, insideOf(pane)).body, row - 1);
  return { view, by };
}

function tabUnder({ state }: Snapshot, column: number): Hit | undefined {
  const text = rowText(tabsRow(state, state.ui.columns));
  const view = VIEWS.find((candidate) => {
    const start = text.indexOf(VIEW_TITLES[candidate]);
    return (
      start >= 0 &&
      column >= cellWidth(text.slice(0, start)) &&
      column < cellWidth(text.slice(0, start + VIEW_TITLES[candidate].length))
    );
  });
  return view === undefined ? undefined : { view, by: 0 };
}

function paneUnder(bands: readonly PaneBand[], { column, row }: Cell): { pane: PlacedPane; row: number } | undefined {
  let top = 0;
  for (const band of bands) {
    const height = (band[0] ?? []).reduce((sum, pane) => sum + pane.height, 0);
    if (row < top + height) return paneInBand(band, { column, row: row - top });
    top += height;
  }
  return undefined;
}

function paneInBand(columns: PaneBand, { column, row }: Cell): { pane: PlacedPane; row: number } | undefined {
  let left = 0;
  for (const panes of columns) {
    const width = panes[0]?.width ?? 0;
    if (column < left + width) {
      let top = 0;
      for (const pane of panes) {
        if (row >= top && row < top + pane.height) return { pane, row: row - top };
        top += pane.height;
      }
      return undefined;
    }
    left += width;
  }
  return undefined;
}

// An arrow marks the first or last row that is shown.
const isItem = (row: Row | undefined): boolean => row !== undefined && /^([▸▾] | {2}\S)/.test(rowText(row));

/**
 * Number of items from the cursor's row to `row`; 0 if `row` is not an item, or if rows that are not items are in
 * between.
 */
function itemsAway(body: readonly Row[], row: number): number {
  const marked = body.findIndex((candidate) => rowText(candidate).startsWith('▸ '));
  if (marked < 0 || !isItem(body[row])) return 0;
  const between = body.slice(Math.min(marked, row), Math.max(marked, row));
  return between.every(isItem) ? row - marked : 0;
}
