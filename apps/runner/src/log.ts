import { fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { pino, type DestinationStream, type Logger } from 'pino';

export type { Logger };

const STDERR = 2;
const MOST_UNREAD_BYTES = 1024 * 1024;

/**
 * The daemon's log: one JSON object a line on stderr, with the job's name where there is one. Jobs go on also where
 * nobody reads it.
 */
export function createLogger(level: string): Logger {
  const options = { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime };
  const kind = fstatSync(STDERR);
  if (!kind.isFIFO() && !kind.isSocket()) {
    const file = pino.destination({ fd: STDERR, sync: true });
    file.on('error', goOn);
    return pino(options, file);
  }
  // Node writes to a pipe without waiting. Its stderr is one for the whole process: one listener for all loggers.
  process.stderr.off('error', goOn).on('error', goOn);
  const logger: Logger = pino(
    options,
    new UnreadLines(process.stderr, (lines) => logger.warn({ lines }, 'lines of this log are lost: nobody read them')),
  );
  return logger;
}

/** EPIPE: nobody reads any more; ENOSPC. */
const goOn = (): void => undefined;

/**
 * Lines for a reader that may pause for ever: what is unread waits in memory up to a limit. Past it lines are dropped
 * until the reader has caught up, who is then told how many.
 */
export class UnreadLines implements DestinationStream {
  readonly #stream: Writable;
  readonly #onLost: (lines: number) => void;
  #lost = 0;

  constructor(stream: Writable, onLost: (lines: number) => void) {
    this.#stream = stream;
    this.#onLost = onLost;
  }

  write(line: string): void {
    if (this.#lost === 0 && this.#stream.writableLength < MOST_UNREAD_BYTES) {
      this.#stream.write(line);
      return;
    }
    this.#lost += 1;
    if (this.#lost === 1) this.#stream.once('drain', () => this.#tellLost());
  }

  #tellLost(): void {
    const lines = this.#lost;
    this.#lost = 0;
    this.#onLost(lines);
  }
}
