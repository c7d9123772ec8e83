import { spawnSync } from 'node:child_process';

export interface SyncOptions {
  cwd?: string;
  limitMs: number;
  /** Variables that it gets, and no others. Default: PATH alone. */
  environment?: NodeJS.ProcessEnv;
}

/** How a program ended that the whole process waited for. */
export interface SyncEnd {
  /** Undefined when it was ended by a signal, and when it never ran. */
  exitCode: number | undefined;
  signalName: NodeJS.Signals | undefined;
  timedOut: boolean;
  /** Why it could not be started: ENOENT … */
  startError: NodeJS.ErrnoException | undefined;
  stdout: string;
  stderr: string;
}

/**
 * Runs a short program while nothing else goes on: before the runner serves, in a command that a person waits for, or
 * where all who ask at once must get one answer. What runs while the runner serves goes through runProgram.
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
    // Null where it could not be started.
    stdout: stdout ?? '',
    stderr: stderr ?? '',
  };
}
