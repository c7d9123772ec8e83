/** The process's own clock, in whole milliseconds: nobody sets it back, or ahead. */
export const processMs = (): number => Math.round(performance.now());

/** What a client used of a device counts half after so long. */
const HALF_LIFE_MS = 15 * 60_000;
/** Less than this is forgotten; a job costs 1 at least. */
const NEGLIGIBLE = 0.01;
/** How much the last job says of what the next one will cost. */
const NEWEST = 0.1;

/** What clients have used of a device lately, in seconds and one more for each job. */
export class FairShare {
  readonly #used = new Map<string, { cost: number; atMs: number }>();
  readonly #nowMs: () => number;
  #usual = 1;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** What a job of the device costs, by those before. */
  get usual(): number {
    return this.#usual;
  }

  used(client: string): number {
    const { cost, atMs } = this.#used.get(client) ?? { cost: 0, atMs: 0 };
    const left = cost * 2 ** ((atMs - this.#nowMs()) / HALF_LIFE_MS);
    return left < NEGLIGIBLE ? 0 : left;
  }

  /** A job of a client has ended. */
  charge(client: string, cost: number): void {
    for (const other of this.#used.keys()) if (this.used(other) === 0) this.#used.delete(other);
    this.#used.set(client, { cost: this.used(client) + cost, atMs: this.#nowMs() });
    this.#usual = Math.max(1, this.#usual + NEWEST * (cost - this.#usual));
  }
}

/** Whole seconds, so that jobs of moments cost alike and clients take turns. */
export const costOf = (deviceMs: number): number => 1 + Math.floor(deviceMs / 1000);
