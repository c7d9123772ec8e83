import { endsWithin } from './async.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { Tracing } from './operation/tracing.ts';
import type { RunnerDoor } from './runner-door.ts';
import type { RunnerOptions } from './runner-options.ts';
import type { WriteState } from './store/write-state.ts';

/** Time limit for calls that are still open when all jobs have ended, so that watchers can read the last events. */
const CALLS_GRACE_MS = 2_000;
/**
 * Workers are killed, but one that hangs in its driver must not keep the runner from ending. Longer than the workers'
 * own limits.
 */
const WORKERS_GRACE_MS = 7_000;

interface Running {
  door: RunnerDoor;
  jobs: Jobs;
  planner: JobPlanner;
  writes: WriteState;
  tracing: Tracing | undefined;
  /** Closes what is still open after the last call. */
  close: () => void;
}

interface RunnerEnd {
  readonly ended: Promise<void>;
  stop: () => void;
}

/** Accepts work until the runner is stopped, then ends it. */
export function serveUntilStopped(
  { logger, graceSeconds }: Pick<RunnerOptions, 'logger' | 'graceSeconds'>,
  { door, jobs, planner, writes, tracing, close }: Running,
): RunnerEnd {
  const ended = Promise.withResolvers<void>();
  let stopping = false;
  // Reads and watches continue while nothing can be stored.
  door.setServing(writes.failure === undefined);
  writes.onChange((writable) => door.setServing(writable && !stopping));
  const end = async (): Promise<void> => {
    if (!planner.keptBody) await jobs.drain(graceSeconds * 1_000);
    const closed = planner.close();
    // Another runner will continue these jobs, so they are not ended and the planner hears nothing more about them.
    if (planner.keptBody) jobs.leave();
    if (!(await endsWithin(closed, WORKERS_GRACE_MS)))
      logger.warn('a worker or compiler does not end: it is left behind');
    await door.listener.close(CALLS_GRACE_MS);
    await tracing?.close();
    close();
  };
  const stop = (): void => {
    if (stopping) return planner.keptBody ? undefined : jobs.stopAll();
    stopping = true;
    door.setServing(false);
    logger.info({ activeJobs: jobs.active }, 'ending');
    end().then(ended.resolve, ended.reject);
  };
  return { ended: ended.promise, stop };
}
