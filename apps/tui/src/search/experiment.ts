import { createHash } from 'node:crypto';
import {
  FlashcoreError,
  JobState,
  Outcome,
  isErrorReasonName,
  type GetJobResponse,
  type Job,
  type JobError,
  type JobEvent,
  type JobResult,
} from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import type { StartRequest } from '../session/runner-port.ts';

/** A job that has a result. */
export interface EndedJob {
  readonly job: Job;
  readonly result: JobResult | undefined;
}

export interface RunOptions {
  /** An abort cancels the job. */
  readonly signal?: AbortSignal | undefined;
  /** Receives every event. */
  readonly onEvent?: (event: JobEvent) => void;
}

/**
 * Starts a job, or finds the job of the same request_id, and waits for its result. If the runner is lost, waits until
 * it is back; an embedded runner is restarted. An abort cancels the job. Errors: those of the RPC; JobUndecided if the
 * runner could not find out.
 */
export async function runToResult(
  { client, revive }: Connection,
  { method, request }: StartRequest,
  { signal, onEvent }: RunOptions = {},
): Promise<EndedJob> {
  let name = '';
  let error: JobError | undefined;
  const onConnection = (state: 'connected' | 'reconnecting'): void => {
    // If the runner can't be restarted either, the stream ends with its own error.
    if (state === 'reconnecting') revive?.().catch(() => undefined);
  };
  try {
    for await (const event of client.start(method, request, { signal, onConnection })) {
      name = event.job;
      if (event.payload.case === 'finished') error = event.payload.value.error;
      onEvent?.(event);
    }
  } catch (thrown) {
    if (signal?.aborted && name !== '') await client.cancelJob({ name });
    throw thrown;
  }
  return decided(await client.getJob({ name }, { signal, resume: { signal, onConnection } }), error);
}

/** The runner could not judge the kernel. Trying again may help. */
export class JobUndecided extends FlashcoreError {
  readonly job: Job;

  constructor(job: Job, error: JobError | undefined) {
    const reason = error && isErrorReasonName(error.reason) ? error.reason : 'INTERNAL';
    super(reason, { job: job.name }, `${job.name} ended without a result: ${job.summary || Outcome[job.outcome]}`);
    this.job = job;
  }
}

/** Outcomes that say nothing about the kernel. */
const UNDECIDED: ReadonlySet<Outcome> = new Set([
  Outcome.UNSPECIFIED,
  Outcome.CANCELLED,
  Outcome.ERROR,
  Outcome.INTERRUPTED,
]);

export const isDecided = ({ outcome }: Pick<Job, 'outcome'>): boolean => !UNDECIDED.has(outcome);

function decided({ job, result }: GetJobResponse, error: JobError | undefined): EndedJob {
  if (job?.state !== JobState.ENDED) throw new FlashcoreError('INTERNAL', {}, "The job's stream ended before the job");
  if (!isDecided(job)) throw new JobUndecided(job, error);
  return { job, result };
}

/** A UUID derived from the text, so that a request repeated after a kill is the same request. */
export function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  const variant = ((Number.parseInt(hex[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
