/** Whether one more job is taken: the queue's limit, and each owner's share of jobs and of device time. */
import { FlashcoreError } from '@flashcore/shared/contract';

/** When to try again after QUEUE_FULL: about what a short job takes. */
const RETRY_AFTER_SECONDS = 5;
const DAY_MS = 24 * 3_600_000;
/** Device time comes back as the day moves on. */
const DEVICE_TIME_RETRY_SECONDS = 600;

/** Who asks for a job, and how much they may have. */
export interface OwnerShare {
  /** Name of the client. */
  owner: string;
  /** By the client's role: a job of a client of weight 4 counts a quarter in the queue; default: 1. */
  weight?: number;
  /** Most jobs of this owner that may wait and run at once; undefined: no limit but the queue's. */
  maxJobsOfOwner: number | undefined;
  /** Most seconds of devices in a day for this owner's jobs; undefined: no limit. */
  maxDeviceSecondsOfOwner?: number | undefined;
  /** Of the job asked for. */
  maxRunSeconds: number;
}

interface QueueLoad {
  draining: boolean;
  /** Jobs that wait, over all devices. */
  waiting: number;
  maxQueued: number;
}

/** What an owner's jobs that wait or run come to. */
export interface OwnJobs {
  count: number;
  /** The most that they may run. */
  promisedSeconds: number;
}

interface OwnerLoad {
  jobs: OwnJobs;
  /** Seconds that the owner's jobs have had a device for. */
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

/** Time that was used and time that was promised count alike: a queue of week-long jobs keeps others out too. */
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
