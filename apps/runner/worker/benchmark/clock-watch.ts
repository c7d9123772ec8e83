import { quantile } from '@flashcore/shared/statistics';

/** Samples whose median a new one's clock is compared with. */
const WINDOW = 64;
/** Fewer say nothing about what the clock is. */
const LEAST_KNOWN = 8;
/** A sample whose clock is below this share of the rolling median ran on a device that had slowed down. */
const CLOCK_SHARE = 0.98;

/**
 * Tells which samples the device was slower in than around them. The rolling median, not the maximum boost clock, is
 * what counts: a card at its power cap
 * never has its maximum, and where the clock settles lower for good the median follows.
 */
export class ClockWatch {
  readonly #recent: number[] = [];

  /** Takes the next sample's clock, MHz (0: not known); true when it fell. */
  fell(clockMhz: number): boolean {
    if (clockMhz <= 0) return false;
    const fell = this.#recent.length >= LEAST_KNOWN && clockMhz < CLOCK_SHARE * quantile(this.#recent, 0.5);
    this.#recent.push(clockMhz);
    if (this.#recent.length > WINDOW) this.#recent.shift();
    return fell;
  }
}
