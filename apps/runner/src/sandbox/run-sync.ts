import { spawnSync } from 'node:child_process';

export interface SyncOptions {
  cwd?: string;
  limitMs: number;
  /** The program's complete environment. Default: only PATH. */
  environment?: NodeJS.ProcessEnv;
}

/** How a synchronously run program ended. */
export interface SyncEnd {
  /** Undefined if a signal ended the program or it never ran. */
  exitCode: number | undefined;
  signalName: NodeJS.Signals | undefined;
  timedOut: boolean;
  /** Why it could not start: ENOENT … */
  startError: NodeJS.ErrnoException | undefined;
  stdout: string;
  stderr: string;
}

/**
 * Runs a short program synchronously: before the runner serves, in a command that a person waits for, or if all
 * concurrent callers must get one answer. While the runner serves, use runProgram.
 */
export function runSync(program: string, args: readonly string[], options: SyncOptions): SyncEnd {
  const { cwd, limitMs, environment } = options;
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, {
    ...(cwd !== undefined && { cwd }),
    encoding: 'utf8',
    timeout: limitMs,
    killSignal: 'SIGKILL',
    env: environment ?? { PATH: process.env['PATH'], LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const startError: NodeJS.ErrnoException | undefined = error;
  const timedOut = startError?.code === 'ETIMEDOUT';
  return {
    exitCode: status ?? undefined,
    signalName: timedOut ? undefined : (signal ?? undefined),
    timedOut,
    startError: timedOut ? undefined : startError,
    // Null if it could not start.
    stdout: stdout ?? '',
    stderr: stderr ?? '',
  };
}
