import { fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { withoutTokens } from '@flashcore/shared/text';
import { pino, type DestinationStream, type Logger } from 'pino';

export type { Logger };

const STDERR = 2;
const MOST_UNREAD_BYTES = 1024 * 1024;
/** How long equal lines are counted instead of written, and the maximum number of different lines remembered. */
const REPEATED_WITHIN_MS = 30_000;
const MOST_REMEMBERED = 64;

/**
 * The daemon's log: one JSON object per line on stderr, with the job's name if there is one, and without tokens. Jobs
 * continue even if nobody reads it.
 */
export function createLogger(level: string): Logger {
  const options = { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime };
  if (level === 'silent') return pino(options);
  const kind = fstatSync(STDERR);
  if (!kind.isFIFO() && !kind.isSocket()) {
    const file = pino.destination({ fd: STDERR, sync: true });
    file.on('error', goOn);
    return pino(options, withoutRepeats(file));
  }
  // Node writes to a pipe without blocking. All loggers share one listener, because the process has only one stderr.
  process.stderr.off('error', goOn).on('error', goOn);
  const logger: Logger = pino(
    options,
    withoutRepeats(
      new UnreadLines(process.stderr, (lines) =>
        logger.warn({ lines }, 'lines of this log are lost: nobody read them'),
      ),
    ),
  );
  return logger;
}

function withoutRepeats(to: DestinationStream): DestinationStream {
  const lines = new RepeatedLines(to);
  process.once('exit', () => lines.flush());
  return lines;
}

/** Ignores EPIPE, when nobody reads any more, and ENOSPC. */
const goOn = (): void => undefined;

interface Repeated {
  /** The last of the equal lines. */
  line: string;
  count: number;
  timer: NodeJS.Timeout;
}

/**
 * Writes a line at once but holds back its repetitions, ignoring differences in time. After a while it writes the last
 * repetition, with the number of repetitions as "repeated".
 */
export class RepeatedLines implements DestinationStream {
  readonly #to: DestinationStream;
  readonly #seen = new Map<string, Repeated>();

  constructor(to: DestinationStream) {
    this.#to = to;
  }

  write(written: string): void {
    const line = withoutTokens(written);
    const key = line.replace(TIME, '');
    const seen = this.#seen.get(key);
    if (seen) {
      seen.line = line;
      seen.count += 1;
      return;
    }
    const [oldest] = this.#seen.keys();
    if (this.#seen.size >= MOST_REMEMBERED) this.#tell(oldest!);
    this.#to.write(line);
    const timer = setTimeout(() => this.#tell(key), REPEATED_WITHIN_MS).unref();
    this.#seen.set(key, { line, count: 0, timer });
  }

  /** Writes the pending repetitions. */
  flush(): void {
    for (const key of [...this.#seen.keys()]) this.#tell(key);
  }

  #tell(key: string): void {
    const { line, count, timer } = this.#seen.get(key)!;
    clearTimeout(timer);
    this.#seen.delete(key);
    if (count > 0) this.#to.write(line.replace(/\}\n$/, `,"repeated":${count}}\n`));
  }
}

/** The beginning of each line that pino writes. */
const TIME = /^\{"level":\d+,"time":"[^"]*"/;

/**
 * Lines for a reader that may pause forever. Unread lines wait in memory up to a limit. Beyond it, lines are dropped
 * until the reader has caught up; a line then says how many were lost.
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
