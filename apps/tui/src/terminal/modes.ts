/**
 * Sets the terminal's modes, including mouse reports, and restores the terminal however the program ends (leaving,
 * signals, uncaught exceptions).
 */
import { writeSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';

const LEAVE_ALTERNATE_SCREEN = '\u001b[?1049l';
// Shows the cursor, turns bracketed paste and mouse off, and resets styles.
const RESTORE = '\u001b[?25h\u001b[?2004l\u001b[?1000l\u001b[?1006l\u001b[0m';

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

export interface TerminalGuard {
  /**
   * Gives the terminal to `borrower`: until it settles, all keys and Ctrl-C go only there. Call this after Ink has
   * released the terminal.
   */
  readonly lend: (borrower: () => Promise<void>) => Promise<void>;
  /** Ends the guard, when the terminal was restored in the normal way. */
  release(): void;
}

interface GuardOptions {
  /** Ends the program's drawing, which normally restores the terminal. */
  readonly unmount: () => void;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream & { readonly fd?: number };
  /**
   * False if the program draws on the main screen, where leaving the alternate screen would move the cursor to an old
   * position.
   */
  readonly alternateScreen: boolean;
}

/** Guards a terminal: call it before the terminal's modes change. */
export function guardTerminal({ unmount, stdin, stdout, alternateScreen }: GuardOptions): TerminalGuard {
  // Ink sets raw mode only after its first frame. Until then, a key would be echoed into the frame and could scroll it
  // by a row.
  if (stdin.isTTY) stdin.setRawMode(true);
  // The alternate screen keeps the cursor's column, and Ink draws from there. The cursor may be behind a prompt, or
  // behind keys that were typed early.
  const toFirstColumn = (): void => void (alternateScreen && stdout.isTTY && stdout.write('\r'));
  toFirstColumn();
  const restore = (): void => {
    try {
      unmount();
    } finally {
      if (stdin.isTTY) stdin.setRawMode(false);
      // Written directly rather than through the stream's buffer, because the event loop may never run again.
      if (stdout.isTTY) writeNow(stdout.fd ?? 1, alternateScreen ? LEAVE_ALTERNATE_SCREEN + RESTORE : RESTORE);
    }
  };
  let lent = false;
  const onSignal = (signal: keyof typeof SIGNAL_NUMBERS): void => {
    if (lent && signal === 'SIGINT') return;
    restore();
    process.exit(128 + SIGNAL_NUMBERS[signal]);
  };
  const onException = (error: unknown): void => {
    restore();
    process.stderr.write(
      `fa-tui crashed (jobs continue): ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
    process.exit(3);
  };
  const signals = Object.keys(SIGNAL_NUMBERS) as (keyof typeof SIGNAL_NUMBERS)[];
  for (const signal of signals) process.on(signal, onSignal);
  process.on('uncaughtException', onException);
  process.on('unhandledRejection', onException);
  return {
    lend: async (borrower) => {
      lent = true;
      try {
        await stopReading(stdin);
        await borrower();
      } finally {
        lent = false;
        toFirstColumn();
      }
    },
    release: () => {
      if (stdin.isTTY) stdin.setRawMode(false);
      for (const signal of signals) process.off(signal, onSignal);
      process.off('uncaughtException', onException);
      process.off('unhandledRejection', onException);
    },
  };
}

/**
 * Stops reading from the terminal until there is a 'readable' listener again. When Ink's listener is removed, Node
 * itself would keep reading: the borrower would never get the keys that Node reads, and a read without input would
 * block the whole program until the next key.
 */
async function stopReading(stdin: NodeJS.ReadStream): Promise<void> {
  // A stream notices only one turn later that a listener is gone, and stops its handle one turn after it was paused.
  await nextTurn();
  stdin.pause();
  await nextTurn();
}

/** Ignores errors: a terminal that is gone (SIGHUP) or full accepts nothing, and nobody is left to be informed. */
function writeNow(fileDescriptor: number, text: string): void {
  try {
    writeSync(fileDescriptor, text);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EIO' && code !== 'EAGAIN' && code !== 'EBADF' && code !== 'EPIPE') throw error;
  }
}

/**
 * Lets the program continue while the terminal accepts nothing because it is paused or slow. Uses a private handle of
 * Node's. If Node no longer has the handle, everything works, but the program can stall.
 */
export function makeNonBlocking(stdout: NodeJS.WriteStream): void {
  (stdout as { _handle?: { setBlocking?: (blocking: boolean) => void } })._handle?.setBlocking?.(false);
}

/** Mouse events as terminals report them on request (SGR, 1006): wheel and left button. */
export type MouseEvent =
  | { readonly kind: 'wheel'; readonly by: 1 | -1 }
  // Column and row of the cell, counted from 0.
  | { readonly kind: 'click'; readonly column: number; readonly row: number };

export const MOUSE_ON = '\u001b[?1000h\u001b[?1006h';
export const MOUSE_OFF = '\u001b[?1006l\u001b[?1000l';

const SGR_EVENT = /\u001b\[<(\d+);(\d+);(\d+)([Mm])/g;
const WHEEL_UP = 64;
const WHEEL_DOWN = 65;
const LEFT = 0;

/** The events in a chunk of input. Releases and other buttons are ignored. */
export function mouseEvents(input: string): MouseEvent[] {
  return [...input.matchAll(SGR_EVENT)].flatMap(([, button, column, row, action]): MouseEvent[] => {
    if (Number(button) === WHEEL_UP) return [{ kind: 'wheel', by: -1 }];
    if (Number(button) === WHEEL_DOWN) return [{ kind: 'wheel', by: 1 }];
    return Number(button) === LEFT && action === 'M'
      ? [{ kind: 'click', column: Number(column) - 1, row: Number(row) - 1 }]
      : [];
  });
}
