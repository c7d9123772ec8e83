import type { Readable } from 'node:stream';
import { plainLine } from '@flashcore/shared/text';
import { onBoundedLines } from './bounded-lines.ts';
import { Child } from './child.ts';

/** How a program ended. */
export interface ProgramEnd {
  /** Undefined when it was killed. */
  exitCode: number | undefined;
  /** Set when it ran into its limit; it was killed with all its children. */
  timedOut: boolean;
  seconds: number;
  /** All that it wrote, up to a cap, control characters removed. */
  lines: string[];
}

export interface RunOptions {
  /** Where it runs, and where its temporary files go. Default: the runner's own folder. */
  cwd?: string;
  limitMs: number;
  signal: AbortSignal;
  /** Variables that it gets, and no others. Default: PATH alone. */
  environment?: NodeJS.ProcessEnv;
  /** Each line as it appears. */
  onLine?: (line: string) => void;
}

const MAX_LINES = 5_000;

/** What a killed program's children, out of its group, may hold its output for. */
const AFTER_KILL_MS = 1_000;

/**
 * Runs a compiler or a profiler to its end, in a process group of its own, without a shell's expansions and with next
 * to no environment, and streams its lines. Past its limit, when the signal aborts, and when the runner dies, the whole
 * group is killed: a kernel that nobody waits for would run beside the next one's benchmark. A program that is not
 * there ends with exit status 127, as in a shell. Errors: the signal's reason; the system's where no process can be
 * started.
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  { cwd, limitMs, signal, environment, onLine }: RunOptions,
): Promise<ProgramEnd> {
  signal.throwIfAborted();
  const started = performance.now();
  const child = new Child(program, args, {
    ...(cwd !== undefined && { cwd }),
    ownGroup: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment ?? { PATH: process.env['PATH'], LC_ALL: 'C', TMPDIR: cwd },
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
  }, limitMs);
  signal.addEventListener('abort', kill);
  const collector = new LineCollector(onLine);
  collector.read(child.stdout);
  collector.read(child.stderr);
  try {
    const { exitCode, startError } = await Promise.race([
      child.closed,
      killed.promise.then(() => child.ended(AFTER_KILL_MS)),
    ]);
    signal.throwIfAborted();
    if (startError) throw startError;
    return {
      exitCode: timedOut ? undefined : (exitCode ?? undefined),
      timedOut,
      seconds: (performance.now() - started) / 1000,
      lines: collector.lines,
    };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', kill);
  }
}

/** The lines of both streams; what comes after the cap is counted, not kept. */
class LineCollector {
  readonly lines: string[] = [];
  readonly #onLine: ((line: string) => void) | undefined;
  #dropped = 0;
  #open = 0;

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
  }

  read(stream: Readable): void {
    this.#open += 1;
    onBoundedLines(stream, (line) => this.#add(line));
    stream.on('end', () => {
      this.#open -= 1;
      if (this.#open === 0 && this.#dropped > 0) this.#push(`… ${this.#dropped} more lines`);
    });
  }

  #add(line: string): void {
    if (this.lines.length >= MAX_LINES) this.#dropped += 1;
    else this.#push(plainLine(line));
  }

  #push(line: string): void {
    this.lines.push(line);
    this.#onLine?.(line);
  }
}
