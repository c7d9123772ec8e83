import { create } from '@bufbuild/protobuf';
import {
  Outcome,
  asFlashcoreError,
  JobErrorSchema,
  JobResultSchema,
  type FlashcoreError,
  type JobResult,
} from '@flashcore/shared/contract';
import type { JobOutcome } from './job-context.ts';

/** Why a job is stopped from outside its body. */
export type StopCause =
  /** `by` is the client, if the runner tells its clients apart. */
  | { type: 'cancelled'; by?: string | undefined }
  | { type: 'run-limit'; seconds: number }
  | { type: 'queue-limit'; seconds: number; deviceId: string }
  | { type: 'runner-stopped' }
  | { type: 'failed'; error: FlashcoreError };

interface StoppedBody {
  /** The body's findings so far. */
  result?: JobResult | undefined;
  /** The outcome that the body reported before it was stopped. */
  decided?: JobOutcome | undefined;
}

/** Between the verdict that stays and the reason for the stop. */
const AFTER_VERDICT = '; after that: ';

/** The outcome that another runner's job had decided before it was stopped; undefined if it had decided none. */
export function decidedElsewhere(end: JobOutcome): JobOutcome | undefined {
  const at = end.summary.lastIndexOf(AFTER_VERDICT);
  return at < 0 ? undefined : { ...end, summary: end.summary.slice(0, at) };
}

/** The end of a job that was stopped. An outcome that was already decided stays. */
export function endByStop(
  cause: StopCause,
  phase: 'queued' | 'running',
  { result, decided }: StoppedBody = {},
): JobOutcome {
  const found = result ?? decided?.result ?? create(JobResultSchema);
  if (decided === undefined || cause.type === 'failed') return endUndecided(cause, phase, found);
  const { summary } = endUndecided(cause, phase, found);
  return { ...decided, summary: `${decided.summary}${AFTER_VERDICT}${summary}`, result: found };
}

function endUndecided(cause: StopCause, phase: 'queued' | 'running', result: JobResult): JobOutcome {
  switch (cause.type) {
    case 'cancelled':
      return {
        outcome: Outcome.CANCELLED,
        summary: `Cancelled${cause.by === undefined ? '' : ` by ${cause.by}`} while it was ${phase}`,
        result,
      };
    case 'run-limit':
      return {
        outcome: Outcome.TIMED_OUT,
        summary: `Stopped after ${cause.seconds} s of running, the job's limit (max_run_seconds)`,
        result,
      };
    case 'queue-limit': {
      const message = `Not started: device ${cause.deviceId} did not come free within ${cause.seconds} s, the job's limit (max_queue_seconds)`;
      return {
        outcome: Outcome.ERROR,
        summary: message,
        result,
        error: create(JobErrorSchema, { reason: 'DEVICE_UNAVAILABLE', message }),
      };
    }
    case 'runner-stopped':
      return { outcome: Outcome.INTERRUPTED, summary: `The runner was stopped while the job was ${phase}`, result };
    case 'failed':
      return endByError(cause.error, result);
  }
}

/**
 * The end of a job whose body threw, so the runner has no answer. Errors other than FlashcoreError go to the log with
 * their text; clients get an incident number.
 */
export function endByError(thrown: unknown, result: JobResult = create(JobResultSchema)): JobOutcome {
  const { reason, message } = asFlashcoreError(thrown);
  return { outcome: Outcome.ERROR, summary: message, result, error: create(JobErrorSchema, { reason, message }) };
}
