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

/** How a program ended whose standard output is a file to read. */
export interface ProgramOutput extends ProgramEnd {
  /** Byte for byte, as UTF-8; undefined when it was longer than the caller takes, which killed the program. */
  output: string | undefined;
  /** The signal that ended it, where it was not ours. */
  signalName: NodeJS.Signals | undefined;
}

export interface ReadOptions extends RunOptions {
  /** With `onLine`, the lines of standard output are told and kept too. */
  maxBytes: number;
}

// Compilers report what they made last: ptxas lists the entries after any number of warnings.
const MAX_FIRST_LINES = 4_000;
const MAX_LAST_LINES = 1_000;

/** What a killed program's children, out of its group, may hold its output for. */
const AFTER_KILL_MS = 1_000;

/**
 * Runs a compiler or a profiler to its end, in a process group of its own, without a shell's expansions and with next
 * to no environment, and streams its lines. Past its limit, when the signal aborts, and when the runner dies, the whole
 * group is killed: a kernel that nobody waits for would run at the same time as the next one's benchmark. A program
 * that is not there ends with exit status 127, as in a shell. Errors: the signal's reason; the system's where no
 * process can be started.
 */
export async function runProgram(program: string, args: readonly string[], options: RunOptions): Promise<ProgramEnd> {
  const collector = new LineCollector(options.onLine);
  const end = await run(program, args, options, ({ stdout, stderr }) => {
    collector.read(stdout);
    collector.read(stderr);
  });
  return {
    exitCode: end.exitCode,
    timedOut: end.timedOut,
    seconds: end.seconds,
    lines: collector.lines,
  };
}

/** runProgram for one whose standard output is data: without `onLine`, `lines` has what it wrote to standard error. */
export async function readProgram(
  program: string,
  args: readonly string[],
  { maxBytes, ...options }: ReadOptions,
): Promise<ProgramOutput> {
  const collector = new LineCollector(options.onLine);
  const pieces: string[] = [];
  let bytes = 0;
  const end = await run(program, args, options, (child) => {
    collector.read(child.stderr);
    if (options.onLine) collector.read(child.stdout);
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      bytes += Buffer.byteLength(piece);
      if (bytes <= maxBytes) pieces.push(piece);
      else child.kill();
    });
  });
  const output = bytes <= maxBytes ? pieces.join('') : undefined;
  return { ...end, lines: collector.lines, output };
}

async function run(
  program: string,
  args: readonly string[],
  { cwd, limitMs, signal, environment }: RunOptions,
  listen: (child: Child) => void,
): Promise<Omit<ProgramOutput, 'lines' | 'output'>> {
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
  listen(child);
  try {
    const { exitCode, signalName, startError } = await Promise.race([
      child.closed,
      killed.promise.then(() => child.ended(AFTER_KILL_MS)),
    ]);
    signal.throwIfAborted();
    if (startError) throw startError;
    return {
      exitCode: timedOut ? undefined : (exitCode ?? undefined),
      signalName: timedOut ? undefined : (signalName ?? undefined),
      timedOut,
      seconds: (performance.now() - started) / 1000,
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
  /** The newest of those that came after the first MAX_FIRST_LINES, a ring. */
  readonly #last: string[] = [];
  #later = 0;
  #open = 0;

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
  }

  read(stream: Readable): void {
    this.#open += 1;
    onBoundedLines(stream, (line) => this.#add(plainLine(line)));
    stream.on('end', () => {
      this.#open -= 1;
      if (this.#open === 0) this.#tellLast();
    });
  }

  #add(line: string): void {
    if (this.lines.length < MAX_FIRST_LINES) return this.#push(line);
    this.#last[this.#later % MAX_LAST_LINES] = line;
    this.#later += 1;
  }

  #tellLast(): void {
    const dropped = this.#later - this.#last.length;
    if (dropped > 0) this.#push(`… ${dropped} lines left out`);
    const oldest = this.#later % MAX_LAST_LINES;
    for (const line of [...this.#last.slice(oldest), ...this.#last.slice(0, oldest)]) this.#push(line);
  }

  #push(line: string): void {
    this.lines.push(line);
    this.#onLine?.(line);
  }
}
