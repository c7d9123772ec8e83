import { paint, type Theme } from '../present/cells/theme.ts';
import { screenRows } from '../screens/screen-rows.ts';
import type { Snapshot } from '../state/snapshot.ts';

export interface PaintedScreen {
  readonly columns: number;
  /** Rows with escape sequences. */
  readonly rows: readonly string[];
}

/**
 * Paints screens as text. A screen that looks like the last one is the same object, so that nothing is drawn, for
 * example after a tick of the clock or another read of a list.
 */
export class ScreenPainter {
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
