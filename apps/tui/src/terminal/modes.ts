/** Gives the terminal back as it was, on every way out: leaving, signals, an exception that nobody caught. */
import { writeSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';

const LEAVE_ALTERNATE_SCREEN = '\u001b[?1049l';
// Cursor shown, bracketed paste and mouse off, styles off.
const RESTORE = '\u001b[?25h\u001b[?2004l\u001b[?1000l\u001b[?1006l\u001b[0m';

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

export interface TerminalGuard {
  /** While `borrower` has the terminal, every key and Ctrl-C go to `borrower` only. Call once Ink has let go of it. */
  readonly lend: (borrower: () => Promise<void>) => Promise<void>;
  /** Stops guarding: the terminal has been given back in the ordinary way. */
  release(): void;
}

export interface GuardOptions {
  /** Ends the program's drawing; gives the terminal back when all is well. */
  readonly unmount: () => void;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream & { readonly fd?: number };
  /** On the main screen the way back from the alternate one would take the cursor to an old place. */
  readonly alternateScreen: boolean;
}

/** Guards a terminal from the moment its modes change. */
export function guardTerminal({ unmount, stdin, stdout, alternateScreen }: GuardOptions): TerminalGuard {
  // Ink does so after its first frame: a key that came before was echoed into the frame, and could scroll it by a row.
  if (stdin.isTTY) stdin.setRawMode(true);
  // The other screen takes over the cursor's column, and Ink draws from there: behind a prompt, or keys typed early.
  const toFirstColumn = (): void => void (alternateScreen && stdout.isTTY && stdout.write('\r'));
  toFirstColumn();
  const restore = (): void => {
    try {
      unmount();
    } finally {
      if (stdin.isTTY) stdin.setRawMode(false);
      // Written past the stream's buffer: nothing waits for a loop that may never turn again.
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
      `fa-tui ended by a fault of its own (jobs go on): ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
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
 * Stops reading from the terminal; the next listener for 'readable' starts it again. Without its listener Ink ignores
 * input, but Node keeps reading it: each key that Node reads is one that the borrower never gets, and a read that finds
 * nothing left blocks the whole program until the next key.
 */
async function stopReading(stdin: NodeJS.ReadStream): Promise<void> {
  // A stream notices that a listener is gone one turn later, and stops its handle one turn after it is paused.
  await nextTurn();
  stdin.pause();
  await nextTurn();
}

/** A terminal that is gone (SIGHUP) or full takes nothing: there is nobody left to tell. */
function writeNow(fileDescriptor: number, text: string): void {
  try {
    writeSync(fileDescriptor, text);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EIO' && code !== 'EAGAIN' && code !== 'EBADF' && code !== 'EPIPE') throw error;
  }
}

/**
 * Lets the program go on while the terminal takes nothing (a paused or slow one). Uses a private handle of Node's;
 * without it all works, but stalls.
 */
export function makeNonBlocking(stdout: NodeJS.WriteStream): void {
  (stdout as { _handle?: { setBlocking?: (blocking: boolean) => void } })._handle?.setBlocking?.(false);
}
