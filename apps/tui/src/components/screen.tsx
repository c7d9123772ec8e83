import { useMemo, useSyncExternalStore } from 'react';
import { Box, Text } from 'ink';
import type { KeyContext } from '../keys/handler.ts';
import type { Row } from '../present/cells/row.ts';
import { type Theme, paint } from '../present/cells/theme.ts';
import { screenRows } from '../screens/screen-rows.ts';
import type { Snapshot } from '../state/log-search.ts';

interface ScreenProps {
  readonly store: KeyContext['store'];
  readonly theme: Theme;
}

interface PaintedRowsProps {
  readonly rows: readonly string[];
  readonly width: number;
}

/** Draws each row as one text element. Only visible rows become elements. */
function PaintedRows({ rows, width }: PaintedRowsProps) {
  return (
    <Box flexDirection="column" width={width} height={rows.length} flexShrink={0}>
      {rows.map((row, index) => (
        <Text key={index} wrap="truncate">
          {row}
        </Text>
      ))}
    </Box>
  );
}

interface RowsProps {
  readonly rows: readonly Row[];
  readonly width: number;
  readonly theme: Theme;
}

export const Rows = ({ rows, width, theme }: RowsProps) => (
  <PaintedRows rows={rows.map((row) => paint(row, theme))} width={width} />
);

interface PaintedScreen {
  readonly columns: number;
  /** The rows, which contain escape sequences. */
  readonly rows: readonly string[];
}

/**
 * Paints screens as text. If a screen looks like the previous one, returns the same object, so that nothing is drawn,
 * for example after a tick of the clock or when a list was read again without changes.
 */
class ScreenPainter {
  readonly #theme: Theme;
  #of: Snapshot | undefined;
  #last: PaintedScreen = { columns: 0, rows: [] };

  constructor(theme: Theme) {
    this.#theme = theme;
  }

  painted(snapshot: Snapshot): PaintedScreen {
    if (snapshot === this.#of) return this.#last;
    this.#of = snapshot;
    const { columns } = snapshot.state.ui;
    const rows = screenRows(snapshot).map((row) => paint(row, this.#theme));
    const before = this.#last;
    const isSame =
      before.columns === columns &&
      before.rows.length === rows.length &&
      rows.every((row, index) => row === before.rows[index]);
    if (!isSame) this.#last = { columns, rows };
    return this.#last;
  }
}

/** The whole screen. It is redrawn only if a row has changed. */
export function Screen({ store, theme }: ScreenProps) {
  const painter = useMemo(() => new ScreenPainter(theme), [theme]);
  const { rows, columns } = useSyncExternalStore(store.subscribe, () => painter.painted(store.getSnapshot()));
  return (
    <Box flexDirection="column" width={columns} height={rows.length} overflow="hidden">
      <PaintedRows rows={rows} width={columns} />
    </Box>
  );
}
