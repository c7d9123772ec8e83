import type { Readable } from 'node:stream';
import { plainLine } from '@flashcore/shared/text';
import { Child } from '../sandbox/child.ts';

/** How a program ended. */
export interface ProcessEnd {
  /** Undefined when it was killed. */
  exitCode: number | undefined;
  /** Set when it ran into its limit; it was killed with all its children. */
  timedOut: boolean;
  seconds: number;
  /** All that it wrote, up to a cap, control characters removed. */
  lines: string[];
}

export interface ProcessOptions {
  cwd: string;
  limitMs: number;
  signal: AbortSignal;
  /** Variables beside PATH. */
  environment?: Record<string, string>;
  /** Each line as it appears. */
  onLine?: (line: string) => void;
}

const MAX_LINE_LENGTH = 4096;
const MAX_LINES = 5_000;

/** What a killed program's children, out of its group, may hold its output for. */
const AFTER_KILL_MS = 1_000;

/**
 * Runs a program in a process group of its own, without a shell's expansions and with next to no environment, and
 * streams its lines.
 * Past its limit, when the signal aborts, and when the runner dies, the whole group is killed. A program that is not
 * there ends with exit status 127, as in a shell.
 * Errors: the signal's reason; the system's where no process can be started.
 */
export async function runProcess(
  program: string,
  args: readonly string[],
  options: ProcessOptions,
): Promise<ProcessEnd> {
  options.signal.throwIfAborted();
  const started = performance.now();
  const child = new Child(program, args, {
    cwd: options.cwd,
    ownGroup: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TMPDIR: options.cwd, ...options.environment },
  });
  const killed = Promise.withResolvers<void>();
  const kill = (): void => {
    child.kill();
    killed.resolve();
  };
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill();
  }, options.limitMs);
  options.signal.addEventListener('abort', kill);
  const collector = new LineCollector(options.onLine);
  collector.read(child.stdout);
  collector.read(child.stderr);
  try {
    const { exitCode, startError } = await Promise.race([
      child.closed,
      killed.promise.then(() => child.ended(AFTER_KILL_MS)),
    ]);
    options.signal.throwIfAborted();
    if (startError) throw startError;
    return {
      exitCode: timedOut ? undefined : (exitCode ?? undefined),
      timedOut,
      seconds: (performance.now() - started) / 1000,
      lines: collector.lines,
    };
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener('abort', kill);
  }
}

/** Splits streams into lines; what comes after the cap is counted, not kept. */
class LineCollector {
  readonly lines: string[] = [];
  readonly #onLine: ((line: string) => void) | undefined;
  #dropped = 0;
  #open = 0;

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
  }

  read(stream: Readable): void {
    let rest = '';
    this.#open += 1;
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      // A line without an end must not grow without bound.
      rest = parts.pop()!.slice(-MAX_LINE_LENGTH);
      parts.forEach((line) => this.#add(line));
    });
    stream.on('end', () => {
      if (rest !== '') this.#add(rest);
      this.#open -= 1;
      if (this.#open === 0 && this.#dropped > 0) this.#push(`… ${this.#dropped} more lines`);
    });
  }

  #add(line: string): void {
    if (this.lines.length >= MAX_LINES) this.#dropped += 1;
    else this.#push(plainLine(line).slice(0, MAX_LINE_LENGTH));
  }

  #push(line: string): void {
    this.lines.push(line);
    this.#onLine?.(line);
  }
}
