import { quantile } from '@flashcore/shared/statistics';

/** Number of samples whose median clock each new sample is compared with. */
const WINDOW = 64;
/** With fewer known clocks, no sample counts as slow. */
const LEAST_KNOWN = 8;
/** A sample counts as slow if its clock is below this share of the rolling median. */
const CLOCK_SHARE = 0.98;

/**
 * Finds samples in which the device was slower than in the samples around them. The reference is the rolling median,
 * not the maximum boost clock: a card at its power cap never reaches its maximum, and if the clock settles lower for
 * good the median follows.
 */
export class ClockWatch {
  readonly #recent: number[] = [];

  /** Takes the next sample's clock in MHz (0: not known). Returns true if the clock fell. */
  fell(clockMhz: number): boolean {
    if (clockMhz <= 0) return false;
    const fell = this.#recent.length >= LEAST_KNOWN && clockMhz < CLOCK_SHARE * quantile(this.#recent, 0.5);
    this.#recent.push(clockMhz);
    if (this.#recent.length > WINDOW) this.#recent.shift();
    return fell;
  }
}
