import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

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

/**
 * Runs a program in a process group of its own, without a shell and with next to no environment, and streams its lines.
 * Past its limit, or when the signal aborts, the whole group is killed. Errors: the signal's reason; ENOENT as spawn gives it.
 */
export async function runProcess(program: string, args: readonly string[], options: ProcessOptions): Promise<ProcessEnd> {
  options.signal.throwIfAborted();
  const started = performance.now();
  const child = spawn(program, args, {
    cwd: options.cwd,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TMPDIR: options.cwd, ...options.environment },
  });
  const killGroup = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
  };
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup();
  }, options.limitMs);
  options.signal.addEventListener('abort', killGroup);
  const collector = new LineCollector(options.onLine);
  collector.read(child.stdout);
  collector.read(child.stderr);
  try {
    const exitCode = await new Promise<number | undefined>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve(code ?? undefined));
    });
    options.signal.throwIfAborted();
    return { exitCode: timedOut ? undefined : exitCode, timedOut, seconds: (performance.now() - started) / 1000, lines: collector.lines };
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener('abort', killGroup);
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
    else this.#push(cleanLine(line));
  }

  #push(line: string): void {
    this.lines.push(line);
    this.#onLine?.(line);
  }
}

// CSI sequences (colours) first, whole; then every other control character but the tab.
const CONTROL = /\u001b\[[0-?]*[ -/]*[@-~]|[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;

export function cleanLine(line: string): string {
  return line.replace(CONTROL, '').slice(0, MAX_LINE_LENGTH);
}
