/** The process's monotonic clock, in whole milliseconds: it can't be set back or ahead. */
export const processMs = (): number => Math.round(performance.now());

/** After this time, a client's use of a device weighs half. */
const HALF_LIFE_MS = 15 * 60_000;
/** Smaller amounts are forgotten; a job costs at least 1. */
const NEGLIGIBLE = 0.01;
/** Weight of the newest job in the moving average of job costs. */
const NEWEST = 0.1;

/** Each client's recent use of a device: seconds, plus one for each job. */
export class FairShare {
  readonly #used = new Map<string, { cost: number; atMs: number }>();
  readonly #nowMs: () => number;
  #usual = 1;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Usual cost of a job on the device: a moving average. */
  get usual(): number {
    return this.#usual;
  }

  used(client: string): number {
    const { cost, atMs } = this.#used.get(client) ?? { cost: 0, atMs: 0 };
    const left = cost * 2 ** ((atMs - this.#nowMs()) / HALF_LIFE_MS);
    return left < NEGLIGIBLE ? 0 : left;
  }

  /** Charges a client for a job that has ended. */
  charge(client: string, cost: number): void {
    for (const other of this.#used.keys()) if (this.used(other) === 0) this.#used.delete(other);
    this.#used.set(client, { cost: this.used(client) + cost, atMs: this.#nowMs() });
    this.#usual = Math.max(1, this.#usual + NEWEST * (cost - this.#usual));
  }
}

/**
 * Cost of a job: its whole device seconds and one more. Very short jobs thus cost the same, and their clients take
 * turns.
 */
export const costOf = (deviceMs: number): number => 1 + Math.floor(deviceMs / 1000);
