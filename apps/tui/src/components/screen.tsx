import { Box } from 'ink';
import { frame, insideOf } from '../present/cells/frame.ts';
import { fitRow, textRow, type Row } from '../present/cells/row.ts';
import { footerRows, headRows } from '../screens/chrome/chrome.ts';
import { CHROME_ROWS, MIN_COLUMNS, MIN_ROWS, isTooSmall, layoutOf } from '../screens/chrome/layout.ts';
import { headerRow } from '../screens/chrome/header.ts';
import { formPane } from '../screens/chrome/form.ts';
import { decisionPane } from '../screens/gates/decision.ts';
import { helpPane } from '../screens/chrome/help.ts';
import { screenOf } from '../screens/chrome/message.ts';
import type { Snapshot } from '../state/snapshot.ts';
import type { Theme } from '../present/cells/theme.ts';
import { Pane } from './pane.tsx';
import { Rows } from './rows.tsx';

/** The whole screen: header and tabs, the panes of the layout or the help, message and hints. */
export function Screen({ snapshot, theme }: { readonly snapshot: Snapshot; readonly theme: Theme }) {
  const { state } = snapshot;
  const { columns, rows } = state.ui;
  if (isTooSmall(state.ui)) return <TooSmall snapshot={snapshot} theme={theme} />;
  return (
    <Box flexDirection="column" width={columns} height={rows} overflow="hidden">
      <Rows rows={headRows(state, columns)} width={columns} theme={theme} />
      <Body snapshot={snapshot} theme={theme} />
      <Rows rows={footerRows(state, columns)} width={columns} theme={theme} />
    </Box>
  );
}

function Body({ snapshot, theme }: { readonly snapshot: Snapshot; readonly theme: Theme }) {
  const ui = screenOf(snapshot.state);
  if (ui.overlay?.kind === 'help') {
    const size = { width: ui.columns, height: ui.rows - CHROME_ROWS };
    const { body, ...border } = helpPane(snapshot.state, ui.overlay, insideOf(size));
    return <Rows rows={frame({ ...border, focused: true }, body, size)} width={size.width} theme={theme} />;
  }
  if (ui.overlay?.kind === 'form') {
    const size = { width: ui.columns, height: ui.rows - CHROME_ROWS };
    const { body, ...border } = formPane(ui.overlay.form, insideOf(size));
    return <Rows rows={frame({ ...border, focused: true }, body, size)} width={size.width} theme={theme} />;
  }
  if (ui.overlay?.kind === 'decide') {
    const size = { width: ui.columns, height: ui.rows - CHROME_ROWS };
    const { body, ...border } = decisionPane(snapshot.state, ui.overlay, insideOf(size));
    return <Rows rows={frame({ ...border, focused: true }, body, size)} width={size.width} theme={theme} />;
  }
  return (
    <Box flexDirection="column" height={ui.rows - CHROME_ROWS} flexShrink={0}>
      {layoutOf(ui).map((band, index) => (
        <Box key={index} flexDirection="row" flexShrink={0}>
          {band.map((column, place) => (
            <Box key={place} flexDirection="column" flexShrink={0}>
              {column.map((pane) => (
                <Pane key={pane.id} pane={pane} snapshot={snapshot} theme={theme} />
              ))}
            </Box>
          ))}
        </Box>
      ))}
    </Box>
  );
}

function TooSmall({ snapshot: { state }, theme }: { readonly snapshot: Snapshot; readonly theme: Theme }) {
  const { columns, rows } = state.ui;
  const lines = [
    headerRow(state, columns),
    textRow(`too small: ${columns}x${rows}, wanted`),
    textRow(`${MIN_COLUMNS}x${MIN_ROWS} or more; q leaves`),
  ];
  // All rows: those of the screen before would stay below.
  const all = Array.from({ length: rows }, (_, row): Row => fitRow(lines[row] ?? [], columns));
  return <Rows rows={all} width={columns} theme={theme} />;
}
