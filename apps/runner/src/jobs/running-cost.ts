import { costOf } from './fair-share.ts';

/** A job that has its device. */
interface Running {
  readonly owner: string;
  /** Device time that the job has used until `nowMs`. */
  deviceMs(nowMs: number): number;
}

/** Costs are whole seconds, so an update every 250 ms keeps each client's cost nearly exact. */
const LOOK_EVERY_MS = 250;

/** Device use of each client by its running jobs. Read for every waiting job, so it is not recomputed at every read. */
export class RunningCost {
  readonly #nowMs: () => number;
  /** Cost at the last update, or when the job began. */
  readonly #costs = new Map<Running, number>();
  readonly #byOwner = new Map<string, number>();
  #lookedMs = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  add(run: Running): void {
    this.#set(run, costOf(run.deviceMs(this.#nowMs())));
  }

  delete(run: Running): void {
    this.#set(run, 0);
    this.#costs.delete(run);
    if (this.#byOwner.get(run.owner) === 0) this.#byOwner.delete(run.owner);
  }

  of(owner: string): number {
    const now = this.#nowMs();
    if (Math.abs(now - this.#lookedMs) >= LOOK_EVERY_MS) {
      this.#lookedMs = now;
      for (const run of this.#costs.keys()) this.#set(run, costOf(run.deviceMs(now)));
    }
    return this.#byOwner.get(owner) ?? 0;
  }

  #set(run: Running, cost: number): void {
    const change = cost - (this.#costs.get(run) ?? 0);
    this.#costs.set(run, cost);
    this.#byOwner.set(run.owner, (this.#byOwner.get(run.owner) ?? 0) + change);
  }
}
