import { availableParallelism, loadavg } from 'node:os';
import type { Readable } from 'node:stream';
import { plainLine } from '@flashcore/shared/text';
import { Child } from './child.ts';

/** How a program ended. */
export interface ProgramEnd {
  /** Undefined if the program was killed. */
  exitCode: number | undefined;
  /** Whether the program reached its time limit; it was then killed with all its children. */
  timedOut: boolean;
  seconds: number;
  /** The program's output lines up to a cap, without control characters. */
  lines: string[];
}

export interface RunOptions {
  /** The working folder, also for temporary files. Default: the runner's own folder. */
  cwd?: string;
  limitMs: number;
  /** How many times longer the limit gets, read when it is reached: hostLoad() if the limit is for an idle host. */
  growth?: () => number;
  signal: AbortSignal;
  /** The program's complete environment. Default: only PATH. */
  environment?: NodeJS.ProcessEnv;
  /** Called with each line as it appears. */
  onLine?: (line: string) => void;
  /** Called with the number of the program's process group when it has started; the result when it has ended. */
  onStarted?: ((group: number) => () => void) | undefined;
}

/** How a program ended, with its standard output as data. */
export interface ProgramOutput extends ProgramEnd {
  /** Standard output, decoded as UTF-8; undefined if it exceeded `maxBytes` and the program was therefore killed. */
  output: string | undefined;
  /** The signal that ended the program; undefined if the runner sent it. */
  signalName: NodeJS.Signals | undefined;
}

export interface ReadOptions extends RunOptions {
  /** Limit of standard output. With `onLine`, its lines are also passed on and kept. */
  maxBytes: number;
}

// The last lines matter: ptxas, for example, lists the entries after any number of warnings.
const MAX_FIRST_LINES = 4_000;
const MAX_LAST_LINES = 1_000;

/** Load extends a limit at most this many times. */
const MOST_GROWTH = 5;

/**
 * How many processes share each processor, from 1 to MOST_GROWTH: the factor by which work takes longer than on an idle
 * host.
 */
export const hostLoad = (): number => Math.min(MOST_GROWTH, Math.max(1, loadavg()[0]! / availableParallelism()));

/** How long children outside a killed program's group may hold its output. */
const AFTER_KILL_MS = 1_000;

/**
 * Runs a compiler or a profiler to its end, in its own process group, without a shell's expansions and with a minimal
 * environment, and streams its lines. The whole group is killed at its time limit, when the signal aborts, and when the
 * runner dies: an abandoned kernel would otherwise run at the same time as the next benchmark. A missing program ends
 * with exit status 127, as in a shell. Errors: the signal's reason; the system's if no process can start.
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

/** Like runProgram, but standard output is data; without `onLine`, `lines` has only standard error. */
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
  { cwd, limitMs, growth = () => 1, signal, environment, onStarted }: RunOptions,
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
  const onGone = child.pid === undefined ? undefined : onStarted?.(child.pid);
  const killed = Promise.withResolvers<void>();
  const kill = (): void => {
    child.kill();
    killed.resolve();
  };
  let timedOut = false;
  const atLimit = (): void => {
    const leftMs = limitMs * growth() - (performance.now() - started);
    if (leftMs > 1) {
      timer = setTimeout(atLimit, leftMs);
      return;
    }
    timedOut = true;
    kill();
  };
  let timer = setTimeout(atLimit, limitMs);
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
    onGone?.();
  }
}

/** The lines of both streams; lines between the first and the last ones are only counted. */
class LineCollector {
  readonly lines: string[] = [];
  readonly #onLine: ((line: string) => void) | undefined;
  /** The newest lines after the first MAX_FIRST_LINES; a ring buffer. */
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

/** Longer lines are split, so that a line without end does not grow in memory. */
export const MAX_LINE_LENGTH = 4096;

/** Calls back with each line of a program's output, and with the rest at its end. */
export function onBoundedLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) tellInPieces(line, onLine);
    for (; rest.length >= MAX_LINE_LENGTH; rest = rest.slice(MAX_LINE_LENGTH)) onLine(rest.slice(0, MAX_LINE_LENGTH));
  });
  stream.on('end', () => {
    if (rest !== '') onLine(rest);
  });
}

function tellInPieces(line: string, onLine: (line: string) => void): void {
  if (line.length <= MAX_LINE_LENGTH) return onLine(line);
  for (let at = 0; at < line.length; at += MAX_LINE_LENGTH) onLine(line.slice(at, at + MAX_LINE_LENGTH));
}
