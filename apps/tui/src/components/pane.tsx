import { frame, insideOf } from '../present/cells/frame.ts';
import { PANE_FUNCTIONS } from '../screens/views.ts';
import { hasFocus, type PlacedPane } from '../screens/chrome/layout.ts';
import type { Snapshot } from '../state/snapshot.ts';
import type { Theme } from '../present/cells/theme.ts';
import { Rows } from './rows.tsx';

interface PaneProps {
  readonly pane: PlacedPane;
  readonly snapshot: Snapshot;
  readonly theme: Theme;
}

/** One view inside its border. */
export function Pane({ pane, snapshot, theme }: PaneProps) {
  const { body, title, remark } = PANE_FUNCTIONS[pane.id](snapshot, insideOf(pane));
  const focused = hasFocus(pane.id, snapshot.state.ui.view);
  return (
    <Rows
      rows={frame({ title, ...(remark !== undefined && { remark }), focused }, body, pane)}
      width={pane.width}
      theme={theme}
    />
  );
}
