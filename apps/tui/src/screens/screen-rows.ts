/** The whole screen as rows: header and tabs, the panes of the layout or the dialog over them, message and hints. */
import { frame, insideOf } from '../present/cells/frame.ts';
import { fitRow, textRow, type Row } from '../present/cells/row.ts';
import type { AppState, Overlay } from '../state/app-state.ts';
import type { Snapshot } from '../state/log-search.ts';
import { commandLogPane } from './chrome/command-log.ts';
import { formPane } from './chrome/form.ts';
import { headerRow, headRows } from './chrome/header.ts';
import { helpPane } from './chrome/help.ts';
import {
  CHROME_ROWS,
  MIN_COLUMNS,
  MIN_ROWS,
  hasFocus,
  isTooSmall,
  layoutOf,
  type PaneBand,
  type PlacedPane,
} from './chrome/layout.ts';
import { labLogPane } from './chrome/lab-log-pane.ts';
import { screenOf } from './chrome/message.ts';
import { decisionPane } from './gates/decision-pane.ts';
import type { PaneContent, Size } from './pane/view.ts';
import { PANE_FUNCTIONS } from './views.ts';
import { footerRows } from './chrome/hints.ts';

/** Returns exactly the rows of the screen, each as wide as the screen. */
export function screenRows(snapshot: Snapshot): Row[] {
  const { state } = snapshot;
  const { columns } = state.ui;
  if (isTooSmall(state.ui)) return tooSmallRows(state);
  return [...headRows(state, columns), ...bodyRows(snapshot), ...footerRows(state, columns)];
}

function bodyRows(snapshot: Snapshot): Row[] {
  const ui = screenOf(snapshot.state);
  const size = { width: ui.columns, height: ui.rows - CHROME_ROWS };
  const over = overlayPane(snapshot.state, ui.overlay, insideOf(size));
  const panes = layoutOf(ui).flatMap((band) => bandRows(band, snapshot));
  if (over === undefined) return panes;
  const { body, ...border } = over;
  // A dialog covers only as many rows as it needs, so that the view that it is about stays visible above it.
  const height = Math.min(size.height, body.length + size.height - insideOf(size).height);
  return [...panes.slice(0, size.height - height), ...frame({ ...border, focused: true }, body, { ...size, height })];
}

/** The dialog over the panes; undefined if there is none. */
function overlayPane(state: AppState, overlay: Overlay | undefined, inside: Size): PaneContent | undefined {
  switch (overlay?.kind) {
    case 'help':
      return helpPane(state, overlay, inside);
    case 'commands':
      return commandLogPane(state, overlay, inside);
    case 'lab-log':
      return labLogPane(overlay, inside);
    case 'form':
      return formPane(overlay, inside);
    case 'decide':
      return decisionPane(state, overlay, inside);
    default:
      return undefined;
  }
}

/** Columns of panes next to each other. */
function bandRows(band: PaneBand, snapshot: Snapshot): Row[] {
  const columns = band.map((panes) => panes.flatMap((pane) => paneRows(pane, snapshot)));
  return (columns[0] ?? []).map((_, row): Row => columns.flatMap((rows) => rows[row] ?? []));
}

/** One view inside its border. */
function paneRows(pane: PlacedPane, snapshot: Snapshot): Row[] {
  const { body, title, remark } = PANE_FUNCTIONS[pane.id](snapshot, insideOf(pane));
  const focused = hasFocus(pane.id, snapshot.state.ui);
  return frame({ title, ...(remark !== undefined && { remark }), focused }, body, pane);
}

function tooSmallRows(state: AppState): Row[] {
  const { columns, rows } = state.ui;
  const lines = [
    headerRow(state, columns),
    textRow(`too small: ${columns}x${rows}, needs`),
    textRow(`${MIN_COLUMNS}x${MIN_ROWS} or more; q quits`),
  ];
  // Fills all rows, because old rows of the previous screen would remain otherwise.
  return Array.from({ length: rows }, (_, row): Row => fitRow(lines[row] ?? [], columns));
}
