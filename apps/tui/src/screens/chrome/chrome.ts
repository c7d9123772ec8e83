/** The rows around the panes. */
import type { Row } from '../../present/cells/row.ts';
import type { AppState } from '../../state/app-state.ts';
import { headerRow, tabsRow } from './header.ts';
import { hintsRow } from './hints.ts';
import { messageRows } from './message.ts';

export const headRows = (state: AppState, columns: number): Row[] => [
  headerRow(state, columns),
  tabsRow(state, columns),
];

export const footerRows = (state: AppState, columns: number): Row[] => [
  ...messageRows(state, columns),
  hintsRow(state, columns),
];
