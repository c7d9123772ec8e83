import { FlashcoreError } from '@flashcore/shared/contract';
import type { Caller } from './caller.ts';

/** What one client may have of a runner. */
export interface QuotaLimits {
  /** Waiting and running at once. */
  jobs: number;
  /** Lasting rate; four seconds' worth may come at once. */
  callsPerSecond: number;
  /** MiB of sources; an hour's worth may come at once. */
  uploadMibPerHour: number;
  /** Of devices, in any 24 hours. */
  deviceHoursPerDay: number;
}

const BURST_SECONDS = 4;

interface Client {
  calls: Bucket;
  uploadBytes: Bucket;
}

/** Counts what each client takes. Clients that can't be told apart have the runner's limits alone. */
export class Quotas {
  readonly #limits: QuotaLimits;
  readonly #clients = new Map<string, Client>();
  readonly #now: () => number;

  constructor(limits: QuotaLimits, now = () => performance.now() / 1000) {
    this.#limits = limits;
    this.#now = now;
  }

  /** How many jobs a caller may have at once; undefined: as many as the queue takes. */
  maxJobs({ authenticated }: Caller): number | undefined {
    return authenticated ? this.#limits.jobs : undefined;
  }

  /** How much time of devices a caller's jobs may have in 24 hours; undefined: any. */
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

/** A text that says when, and what the limit is. */
function quotaExceeded(quota: 'calls' | 'upload', waitSeconds: number, limit: string): FlashcoreError {
  const seconds = Math.ceil(waitSeconds);
  return new FlashcoreError('QUOTA_EXCEEDED', { quota }, `Try again in ${seconds} s: ${limit}, and has used them up`, {
    retryAfterSeconds: seconds,
  });
}

/** A token bucket: holds at most `capacity`, fills with `perSecond`. */
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

  /** Takes an amount and gives 0; or takes nothing and gives the seconds after which there will be enough. */
  take(amount: number, now: number): number {
    this.#level = Math.min(this.#capacity, this.#level + (now - this.#at) * this.#perSecond);
    this.#at = now;
    if (this.#level < amount) return (amount - this.#level) / this.#perSecond;
    this.#level -= amount;
    return 0;
  }
}
