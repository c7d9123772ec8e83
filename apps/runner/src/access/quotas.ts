import { FlashcoreError } from '@flashcore/shared/contract';
import type { Caller } from './caller.ts';

/** Limits for one client of a runner. */
export interface QuotaLimits {
  /** Jobs waiting or running at the same time. */
  jobs: number;
  /** Sustained rate; a burst may have four seconds' worth. */
  callsPerSecond: number;
  /** MiB of sources per hour; a burst may have an hour's worth. */
  uploadMibPerHour: number;
  /** Device time in any 24 hours. */
  deviceHoursPerDay: number;
}

const BURST_SECONDS = 4;

interface Client {
  calls: Bucket;
  uploadBytes: Bucket;
}

/** Counts each client's use. Clients that can't be told apart have only the runner's own limits. */
export class Quotas {
  readonly #limits: QuotaLimits;
  readonly #clients = new Map<string, Client>();
  readonly #now: () => number;

  constructor(limits: QuotaLimits, now = () => performance.now() / 1000) {
    this.#limits = limits;
    this.#now = now;
  }

  /** The number of jobs that a caller may have at once; undefined: limited only by the queue. */
  maxJobs({ authenticated }: Caller): number | undefined {
    return authenticated ? this.#limits.jobs : undefined;
  }

  /** The device time that a caller's jobs may use in 24 hours; undefined: no limit. */
  maxDeviceSeconds({ authenticated }: Caller): number | undefined {
    return authenticated ? this.#limits.deviceHoursPerDay * 3600 : undefined;
  }

  /** Errors: QUOTA_EXCEEDED. */
  takeCall(caller: Caller): void {
    if (!caller.authenticated) return;
    const waitSeconds = this.#client(caller).calls.take(1, this.#now());
    if (waitSeconds > 0)
      throw quotaExceeded(
        'calls',
        waitSeconds,
        `${caller.name} may make ${this.#limits.callsPerSecond} calls a second`,
      );
  }

  /** Errors: QUOTA_EXCEEDED. */
  takeUpload(caller: Caller, bytes: number): void {
    if (!caller.authenticated) return;
    const waitSeconds = this.#client(caller).uploadBytes.take(bytes, this.#now());
    if (waitSeconds > 0)
      throw quotaExceeded(
        'upload',
        waitSeconds,
        `${caller.name} may upload ${this.#limits.uploadMibPerHour} MiB of sources an hour`,
      );
  }

  #client({ name }: Caller): Client {
    let client = this.#clients.get(name);
    if (!client) {
      const { callsPerSecond, uploadMibPerHour } = this.#limits;
      const uploadBytes = uploadMibPerHour * 1024 ** 2;
      client = {
        calls: new Bucket(callsPerSecond * BURST_SECONDS, callsPerSecond, this.#now()),
        uploadBytes: new Bucket(uploadBytes, uploadBytes / 3600, this.#now()),
      };
      this.#clients.set(name, client);
    }
    return client;
  }
}

/** The error, with the time to wait and the limit. */
function quotaExceeded(quota: 'calls' | 'upload', waitSeconds: number, limit: string): FlashcoreError {
  const seconds = Math.ceil(waitSeconds);
  return new FlashcoreError('QUOTA_EXCEEDED', { quota }, `${limit}, and has used them up: try again in ${seconds} s`, {
    retryAfterSeconds: seconds,
  });
}

/** A token bucket that holds at most `capacity` and fills at `perSecond`. */
class Bucket {
  readonly #capacity: number;
  readonly #perSecond: number;
  #level: number;
  #at: number;

  constructor(capacity: number, perSecond: number, now: number) {
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#level = capacity;
    this.#at = now;
  }

  /**
   * Takes an amount and returns 0. If there is too little, takes nothing and returns the seconds until there is enough.
   */
  take(amount: number, now: number): number {
    this.#level = Math.min(this.#capacity, this.#level + (now - this.#at) * this.#perSecond);
    this.#at = now;
    if (this.#level < amount) return (amount - this.#level) / this.#perSecond;
    this.#level -= amount;
    return 0;
  }
}
