/** Sampling rules that the measurement of one build and the comparison of two share. */
import { median, quantile } from '@flashcore/shared/statistics';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { TimingModeName } from '../messages/measuring.ts';
import type { ClockStamps } from './clock-stamps.ts';
import type { Conditions } from './conditions.ts';

/** Samples go to the parent about ten times a second. */
export const BATCH_MS = 100;
export const PREPARE_LIMIT_MS = 120_000;
export const CONDITIONS_EVERY_MS = 1_000;
/**
 * Number of latest samples that are compared with as many samples before them, to see whether the device has settled.
 */
export const SETTLE_WINDOW = 8;
/**
 * With fewer samples the median has no 95 % interval: all n samples are on one side of it with probability 2 / 2^n,
 * which is 6 % for five.
 */
export const MIN_FOR_INTERVAL = 6;
const SETTLED_RELATIVE = 0.01;
/** Target duration of a graph of launches, much longer than the cost of the event pair. */
const HOT_SAMPLE_US = 2_000;
const MAX_HOT_LAUNCHES = 200;
const STAMPED: Record<TimingModeName, string> = { hot: 'before and after', cold: 'twice before the flush of' };

/** Launches per graph, for a kernel that takes `us` microseconds per launch. */
export const hotLaunches = (us: number): number =>
  Math.max(1, Math.min(MAX_HOT_LAUNCHES, Math.round(HOT_SAMPLE_US / us)));

/** Whether the median has stopped changing. */
export function settled(samples: readonly number[]): boolean {
  if (samples.length < 2 * SETTLE_WINDOW) return false;
  const recent = median(samples.slice(-SETTLE_WINDOW));
  const before = median(samples.slice(-2 * SETTLE_WINDOW, -SETTLE_WINDOW));
  return Math.abs(recent - before) <= SETTLED_RELATIVE * before;
}

/**
 * Decides when to check whether there are enough samples: at the minimum number, and each time the number has grown by
 * a quarter. A check after every sample would stop at the first interval that is narrow by chance.
 */
export class Looks {
  #next: number;

  constructor(fewest: number) {
    this.#next = fewest;
  }

  due(samples: number): boolean {
    if (samples < this.#next) return false;
    this.#next = Math.ceil(samples * 1.25);
    return true;
  }
}

/** Whether an interval is narrow enough relative to the value `of`. */
export const narrowEnough = (
  { low, high }: { low: number; high: number },
  { of, halfWidth }: { of: number; halfWidth: number },
): boolean => (high - low) / 2 <= halfWidth * of;

export interface BatchClocks {
  /** SM clock of each sample in MHz; 0 if unknown. */
  clocksMhz: number[];
  /** Whether each sample's clock fell below that of the samples before. */
  fell: boolean[];
  /** Whether NVML reports throttling by hardware or heat. */
  throttled: boolean;
}

/** The slow samples of a batch: indices of those to drop, and numbers of those kept. */
export interface SlowSamples {
  dropped: number[];
  /** Number of samples kept although their clock fell. */
  slowed: number;
  /** Number of samples kept although the device was throttled. */
  throttled: number;
}

/**
 * Decides which slow samples to drop. In turns nothing is dropped: the other side has no clock per sample and no check
 * of NVML, so dropping one side's slow samples would flatter that side. At the power cap, where the clock varies by a
 * tenth, every third sample would be dropped. Without turns, slow samples are dropped, and a throttled batch is dropped
 * whole.
 */
export function judgeSlow({ fell, throttled }: BatchClocks, { turns }: { turns: boolean }): SlowSamples {
  const slow = [...fell.keys()].filter((index) => throttled || fell[index]);
  if (!turns) return { dropped: slow, slowed: 0, throttled: 0 };
  return throttled
    ? { dropped: [], slowed: 0, throttled: slow.length }
    : { dropped: [], slowed: slow.length, throttled: 0 };
}

interface SamplerParts {
  stamps: ClockStamps | undefined;
  conditions: Conditions;
  mode: TimingModeName;
}

/** Number of samples whose median clock each new sample is compared with. */
const WINDOW = 64;
/** With fewer known clocks, no sample is regarded as slow. */
const LEAST_KNOWN = 8;
/** A sample is slow if its clock is below this share of the rolling median. */
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

/** Detects samples in which the device slowed down, by the stamps around them and by NVML's report for the batch. */
export class SlowDown {
  readonly #stamps: ClockStamps | undefined;
  readonly #conditions: Conditions;
  #watches: ClockWatch[] = [];
  readonly #simulated: boolean;
  readonly #mode: TimingModeName;
  #read = 0;
  #known = 0;

  constructor(driver: CudaDriver, { stamps, conditions, mode }: SamplerParts) {
    this.#stamps = stamps;
    this.#conditions = conditions;
    this.#simulated = driver.facts.simulated;
    this.#mode = mode;
  }

  /** Forgets the clocks so far, because the next series times something else. */
  startSeries(): void {
    this.#watches = [];
  }

  /**
   * The clocks of the `count` samples since the last call. `places` gives each sample's place in its block and repeats.
   * Each place has its own rolling median, because a build that draws more power has a lower clock.
   */
  batch(count: number, places: readonly number[] = [0]): BatchClocks {
    const clocksMhz = this.#stamps?.read() ?? new Array<number>(count).fill(0);
    if (clocksMhz.length !== count) throw new Error(`${count} samples have ${clocksMhz.length} clocks`);
    this.#read += count;
    this.#known += clocksMhz.filter((mhz) => mhz > 0).length;
    const fell = clocksMhz.map((mhz, index) => this.#watchOf(places[index % places.length]!).fell(mhz));
    return { clocksMhz, fell, throttled: this.#conditions.throttled() };
  }

  #watchOf(place: number): ClockWatch {
    return (this.#watches[place] ??= new ClockWatch());
  }

  /** How the clocks were measured. */
  get source(): string {
    if (!this.#stamps) return 'no clock-stamp kernel was compiled for the device';
    if (this.#simulated) return 'simulated: the emulator counts a cycle a nanosecond';
    return `clock64 over globaltimer, stamped ${STAMPED[this.#mode]} every sample${this.#known < this.#read ? `; known for ${this.#known} of ${this.#read}` : ''}`;
  }
}
