/** Decides if one more job is accepted: limits of the queue, and each owner's share of jobs and of device time. */
import { FlashcoreError } from '@flashcore/shared/contract';

/** When to try again after QUEUE_FULL: about the length of a short job. */
const RETRY_AFTER_SECONDS = 5;
const DAY_MS = 24 * 3_600_000;
/** Retry interval when a client's device time is used up; used time leaves the 24-hour window gradually. */
const DEVICE_TIME_RETRY_SECONDS = 600;

/** The client that asks for a job, and its limits. */
export interface OwnerShare {
  /** Name of the client. */
  owner: string;
  /** Weight of the client's role; default: 1. A client of weight 4 is charged a quarter of each job's cost. */
  weight?: number;
  /** Maximum number of waiting and running jobs of this owner; undefined: only the queue's limit applies. */
  maxJobsOfOwner: number | undefined;
  /** Most device seconds a day for this owner's jobs; undefined: no limit. */
  maxDeviceSecondsOfOwner?: number | undefined;
  /** Run limit of the new job. */
  maxRunSeconds: number;
}

interface QueueLoad {
  draining: boolean;
  /** Waiting jobs, over all devices. */
  waiting: number;
  maxQueued: number;
}

/** Totals of an owner's waiting and running jobs. */
export interface OwnJobs {
  count: number;
  /** Sum of their run limits. */
  promisedSeconds: number;
}

interface OwnerLoad {
  jobs: OwnJobs;
  /** Device seconds that the owner's jobs have used since a time. */
  usedSeconds: (sinceMs: number) => number;
}

/** Errors: DRAINING, QUEUE_FULL. */
export function requireRoom({ draining, waiting, maxQueued }: QueueLoad): void {
  if (draining)
    throw new FlashcoreError(
      'DRAINING',
      {},
      'The runner is shutting down and takes no new work: try again once it has been restarted',
    );
  if (waiting < maxQueued) return;
  throw new FlashcoreError(
    'QUEUE_FULL',
    { queued: String(waiting) },
    `${waiting} jobs are waiting, and no more are taken: try again in ${RETRY_AFTER_SECONDS} s`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

/** Errors: QUOTA_EXCEEDED. */
export function requireShare(share: OwnerShare, load: OwnerLoad): void {
  requireDeviceTime(share, load);
  const { owner, maxJobsOfOwner = Infinity } = share;
  const { count } = load.jobs;
  if (count < maxJobsOfOwner) return;
  throw new FlashcoreError(
    'QUOTA_EXCEEDED',
    { quota: 'jobs', jobs: String(count) },
    `${owner} has ${count} jobs waiting or running, the most that one client may have: cancel one, or try again when one has ended`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

/** The limit applies to used and promised time together, so waiting jobs with long run limits also use it up. */
function requireDeviceTime(share: OwnerShare, { jobs, usedSeconds }: OwnerLoad): void {
  const { owner, maxDeviceSecondsOfOwner: most = Infinity, maxRunSeconds } = share;
  if (most === Infinity) return;
  const used = usedSeconds(Date.now() - DAY_MS);
  const promised = jobs.promisedSeconds;
  if (used + promised + maxRunSeconds <= most) return;
  const hours = (seconds: number): string => `${(seconds / 3600).toFixed(1)} h`;
  throw new FlashcoreError(
    'QUOTA_EXCEEDED',
    { quota: 'device', used_seconds: used.toFixed(0), promised_seconds: promised.toFixed(0) },
    `Jobs of ${owner} have used a device for ${hours(used)} in the last 24 hours, those waiting and running may take ${hours(promised)} more, and ${hours(most)} is the most that one client may have: give the job a shorter max_run_seconds than ${maxRunSeconds}, cancel one that is waiting, or try again later`,
    { retryAfterSeconds: DEVICE_TIME_RETRY_SECONDS },
  );
}
