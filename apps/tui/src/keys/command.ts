/** What a command is. Keys, help, hints and the palette all come from the table of these. */
import type { AppState } from '../state/app-state.ts';
import type { Session } from '../state/session.ts';
import type { Copy } from '../terminal/clipboard.ts';
import type { SourcePlace } from '../terminal/editor.ts';
import type { Store } from '../state/store.ts';

export interface CommandContext {
  readonly store: Store;
  readonly session: Session;
  /** Leaves fa-tui; jobs go on. */
  readonly leave: () => void;
  /** Puts text into the terminal's clipboard and a file. */
  readonly copy: Copy;
  /** Gives the terminal to another program until the promise settles, then draws anew. */
  readonly lendTerminal: (borrower: () => Promise<void>) => Promise<void>;
  /** Opens a file in the user's editor, in the terminal. */
  readonly edit: (place: SourcePlace) => Promise<void>;
  /** Kernels of a runner on this machine. */
  readonly kernelsDirectory?: string | undefined;
}

export type CommandGroup = 'views' | 'moving' | 'log' | 'jobs' | 'program';

export interface Command {
  readonly id: string;
  /** Names as key-name.ts gives them. */
  readonly keys: readonly string[];
  readonly group: CommandGroup;
  /** One line for the help. */
  readonly help: string;
  /** Two or three words for the row of hints, where they change with what is shown made of it; absent: never a hint. */
  readonly hint?: string | ((state: AppState) => string);
  /** Whether it does something now; absent: always. */
  readonly when?: (state: AppState) => boolean;
  readonly run: (context: CommandContext) => void;
}

/** The one after `current`, around at the end. */
export const next = <Item>(all: readonly [Item, ...Item[]], current: Item): Item =>
  all[(all.indexOf(current) + 1) % all.length] ?? all[0];
