import { frame, insideOf } from '../present/cells/frame.ts';
import { logPane } from '../screens/run/run.ts';
import { VIEW_FUNCTIONS } from '../screens/views.ts';
import type { PlacedPane } from '../screens/chrome/layout.ts';
import type { Snapshot } from '../state/snapshot.ts';
import type { Theme } from '../present/cells/theme.ts';
import { Rows } from './rows.tsx';

/** One view inside its border. */
export function Pane({
  pane,
  snapshot,
  theme,
}: {
  readonly pane: PlacedPane;
  readonly snapshot: Snapshot;
  readonly theme: Theme;
}) {
  const view = pane.id === 'log' ? logPane : VIEW_FUNCTIONS[pane.id];
  const { body, ...border } = view(snapshot, insideOf(pane));
  const focused = pane.id === snapshot.state.ui.view;
  return <Rows rows={frame({ ...border, focused }, body, pane)} width={pane.width} theme={theme} />;
}
