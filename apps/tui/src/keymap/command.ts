/** What a command is, without what it does: keys, help, hints and the palette all come from the table of these. */
import type { AppState } from '../state/app-state.ts';

export type CommandGroup = 'views' | 'moving' | 'log' | 'jobs' | 'program';

export interface CommandRow {
  readonly id: string;
  /** Names as key-name.ts gives them. */
  readonly keys: readonly string[];
  readonly group: CommandGroup;
  /** One line for the help. */
  readonly help: string;
  /**
   * Two or three words for the row of hints, where they change with what is shown made of it; absent or empty: no hint.
   */
  readonly hint?: string | ((state: AppState) => string);
  /** Whether it does something now; absent: always. */
  readonly when?: (state: AppState) => boolean;
  /** Why it does nothing now and what would help, for whoever presses the key; absent: that it does nothing. */
  readonly whyNot?: string;
}

/** The one after `current`, around at the end. */
export const next = <Item>(all: readonly [Item, ...Item[]], current: Item): Item =>
  all[(all.indexOf(current) + 1) % all.length] ?? all[0];
