import { paint, type Theme } from '../present/cells/theme.ts';
import { screenRows } from '../screens/screen-rows.ts';
import type { Snapshot } from '../state/snapshot.ts';

export interface PaintedScreen {
  readonly columns: number;
  /** With escape sequences. */
  readonly rows: readonly string[];
}

/**
 * Screens as text. One that looks as the last did is the same object, so that nothing is drawn for it: a clock that
 * moved, a list that was read again are no reason to.
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
