import type { NodeWants } from './node-wants.ts';
import type { Lease } from './pilot-link.ts';

export interface WaitingJob {
  partition: string;
  job: string;
  wants: () => NodeWants;
  /** Called in every round in which the job waits, with the reason why no pilot comes. */
  onProblem?: ((problem: string) => void) | undefined;
}

interface PilotOffer {
  /** Whether the partition still has an idle pilot. */
  isOpen: () => boolean;
  /** A lease for the job; undefined if the job must wait for a better node. An error ends the job's wait. */
  leaseFor: (job: WaitingJob) => Lease | undefined;
}

/** Jobs that wait for a pilot, in order of arrival. */
export class WaitingJobs {
  #waiting: (WaitingJob & { promise: PromiseWithResolvers<Lease> })[] = [];

  count(partition: string): number {
    return this.#waiting.filter((one) => one.partition === partition).length;
  }

  /** Waits for a lease. Errors: the signal's reason, or an error of leaseFor(). */
  async wait(job: WaitingJob, signal: AbortSignal): Promise<Lease> {
    const waiting = { ...job, promise: Promise.withResolvers<Lease>() };
    const leave = (): void => {
      this.#remove(waiting);
      waiting.promise.reject(signal.reason as Error);
    };
    this.#waiting.push(waiting);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await waiting.promise.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  tell(partition: string, problem: string): void {
    for (const one of this.#waiting) if (one.partition === partition) one.onProblem?.(problem);
  }

  /**
   * Offers idle pilots to the waiting jobs in order. A job that waits for a better node does not hold up the jobs after
   * it.
   */
  serve(partition: string, { isOpen, leaseFor }: PilotOffer): void {
    for (const waiting of this.#waiting.filter((one) => one.partition === partition)) {
      if (!isOpen()) return;
      try {
        const lease = leaseFor(waiting);
        if (!lease) continue;
        waiting.promise.resolve(lease);
      } catch (error) {
        waiting.promise.reject(error);
      }
      this.#remove(waiting);
    }
  }

  #remove(job: WaitingJob): void {
    this.#waiting = this.#waiting.filter((one) => one !== job);
  }
}
