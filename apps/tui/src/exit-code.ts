/**
 * How a command ends: the exit codes, and the error for a wrong command line. Every start of fa-tui loads this file.
 */
import type { ExitCode as JobExitCode } from '@flashcore/shared/contract';

/** An error about an invalid command line; its text says what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Exit codes; INTERRUPTED is the code that shells use for Ctrl-C. */
export const ExitCode = {
  PASSED: 0,
  FAILED: 1,
  USAGE: 2,
  RUNNER_CANNOT: 3,
  INTERRUPTED: 130,
} as const satisfies Record<string, JobExitCode | 130>;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];
