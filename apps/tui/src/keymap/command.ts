/** A command without its handler. Key bindings, help, hints and the palette are all made from the table of commands. */
import type { AppState } from '../state/app-state.ts';

type CommandGroup = 'views' | 'moving' | 'log' | 'jobs' | 'program';

export interface CommandRow {
  readonly id: string;
  /** Key names in the form of key-name.ts. */
  readonly keys: readonly string[];
  readonly group: CommandGroup;
  /** One line for the help. */
  readonly help: string;
  /**
   * Two or three words for the row of hints, or a function that makes them from the state. Absent or empty: the row
   * does not show the command.
   */
  readonly hint?: string | ((state: AppState) => string);
  /** True if the command has an effect now; absent if it always has. */
  readonly when?: (state: AppState) => boolean;
  /**
   * The reason why the command has no effect now and the remedy, shown when its key is pressed. Absent: a general text
   * is shown.
   */
  readonly whyNot?: string | ((state: AppState) => string);
}

/** The item after `current`, wrapping around at the end. */
export const next = <Item>(all: readonly [Item, ...Item[]], current: Item): Item =>
  all[(all.indexOf(current) + 1) % all.length] ?? all[0];
