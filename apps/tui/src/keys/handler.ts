/** Dependencies of the command handlers. */
import type { Block } from '../present/blocks.ts';
import type { Session } from '../session/session.ts';
import type { Store } from '../session/store.ts';
import type { Copy } from '../terminal/clipboard.ts';
import type { SourcePlace } from '../terminal/editor.ts';

export interface KeyContext {
  readonly store: Store;
  readonly session: Session;
  /** Leaves fa-tui; jobs continue. */
  readonly leave: () => void;
  /** Puts text into the terminal's clipboard and a file. */
  readonly copy: Copy;
  /** Lends the terminal to another program until `borrower` settles, then redraws. */
  readonly lendTerminal: (borrower: () => Promise<void>) => Promise<void>;
  /** Stops fa-tui as a job of the shell; `fg` brings it back. */
  readonly suspend: () => void;
  /** Opens a file in the user's editor, in the terminal. */
  readonly edit: (place: SourcePlace) => Promise<void>;
  /**
   * Copies a kernel, an id of the runner's or a folder, to a new folder, as `fa-tui new` does. Returns the folder.
   * Absent in a replay. Errors: UsageError, FlashcoreError.
   */
  readonly newKernel?: ((name: string, from: string) => Promise<string>) | undefined;
  /**
   * The lab log of the jobs since a time, in milliseconds since 1970; absent in a replay. Errors: FlashcoreError.
   */
  readonly labLog?: ((since: number) => Promise<readonly Block[]>) | undefined;
  /** Folder of the kernels of a runner on this machine. */
  readonly kernelsDirectory?: string | undefined;
}

/** The effect of a command. */
export type Handler = (context: KeyContext) => void;

/** A handler for each command of a part of the table. */
export type HandlersOf<Rows extends readonly { readonly id: string }[]> = Record<Rows[number]['id'], Handler>;
