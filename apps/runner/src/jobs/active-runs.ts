import { endsWithin } from '../async.ts';
import type { OwnJobs } from './admission.ts';
import type { JobRun } from './job-run.ts';

const NO_JOBS: OwnJobs = { count: 0, promisedSeconds: 0 };

/** The waiting and running jobs, and for each client their number and the sum of their run limits. */
export class ActiveRuns {
  readonly #runs = new Map<number, JobRun>();
  readonly #byOwner = new Map<string, OwnJobs>();
  /** Called when no job waits or runs any more. */
  #onNone: (() => void) | undefined;

  get size(): number {
    return this.#runs.size;
  }

  all(): JobRun[] {
    return [...this.#runs.values()];
  }

  get(jobId: number): JobRun | undefined {
    return this.#runs.get(jobId);
  }

  countOf(state: JobRun['state']): number {
    return this.all().filter((run) => run.state === state).length;
  }

  ofOwner(owner: string): OwnJobs {
    return this.#byOwner.get(owner) ?? NO_JOBS;
  }

  enter(run: JobRun): void {
    this.#runs.set(run.jobId, run);
    const { count, promisedSeconds } = this.ofOwner(run.owner);
    this.#byOwner.set(run.owner, { count: count + 1, promisedSeconds: promisedSeconds + run.maxRunSeconds });
  }

  remove(run: JobRun): void {
    this.#runs.delete(run.jobId);
    const { count, promisedSeconds } = this.ofOwner(run.owner);
    if (count === 1) this.#byOwner.delete(run.owner);
    else this.#byOwner.set(run.owner, { count: count - 1, promisedSeconds: promisedSeconds - run.maxRunSeconds });
    if (this.#runs.size === 0) this.#onNone?.();
  }

  /** Resolves when all jobs have ended or the time is up. */
  async allEnded(withinMs: number): Promise<void> {
    if (this.#runs.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onNone = resolve;
    await endsWithin(promise, withinMs);
  }
}
