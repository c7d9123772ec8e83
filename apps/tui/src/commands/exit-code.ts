import {
  Outcome,
  exitCodeOfError as exitCodeOfReason,
  exitCodeOfOutcome,
  FlashcoreError,
  isErrorReasonName,
  type ExitCode as JobExitCode,
  type JobError,
} from '@flashcore/shared/contract';
import { UsageError } from '../usage-error.ts';

/** Exit codes; INTERRUPTED is the code that shells use for Ctrl-C. */
export const ExitCode = {
  PASSED: 0,
  FAILED: 1,
  USAGE: 2,
  RUNNER_CANNOT: 3,
  INTERRUPTED: 130,
} as const satisfies Record<string, JobExitCode | 130>;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** 2 for a user's mistake, 3 for everything else. */
export function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof UsageError) return ExitCode.USAGE;
  return error instanceof FlashcoreError ? exitCodeOfReason(error.reason) : ExitCode.RUNNER_CANNOT;
}

/** The code for the job's outcome. If the runner could not carry out the job, the code of the job's error. */
export function exitCodeOfEnd({
  outcome,
  error,
}: {
  readonly outcome: Outcome;
  readonly error?: JobError | undefined;
}): ExitCode {
  if (outcome === Outcome.ERROR && error && isErrorReasonName(error.reason)) return exitCodeOfReason(error.reason);
  return exitCodeOfOutcome(outcome);
}
