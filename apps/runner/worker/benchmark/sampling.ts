/** What the measurement of one build and the comparison of two have in common. */
import { median } from '@flashcore/shared/statistics';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { TimingModeName } from '../messages/measuring.ts';
import type { ClockStamps } from './clock-stamps.ts';
import { ClockWatch } from './clock-watch.ts';
import type { Conditions } from './conditions.ts';

/** Samples go to the parent about ten times a second. */
export const BATCH_MS = 100;
export const PREPARE_LIMIT_MS = 120_000;
export const CONDITIONS_EVERY_MS = 1_000;
/** Samples compared with those before them to see whether the device has settled. */
export const SETTLE_WINDOW = 8;
/**
 * Fewer samples have no 95 % interval of their median: that all lie on one side of it has a probability of 2 / 2^n, 6 %
 * for five.
 */
export const MIN_FOR_INTERVAL = 6;
const SETTLED_RELATIVE = 0.01;
/** A graph of launches should take about this long: much longer than the event pair costs. */
const HOT_SAMPLE_US = 2_000;
const MAX_HOT_LAUNCHES = 200;
const STAMPED: Record<TimingModeName, string> = { hot: 'before and after', cold: 'twice before the flush of' };

/** Launches of a graph, for a kernel that takes `us` a launch. */
export const hotLaunches = (us: number): number =>
  Math.max(1, Math.min(MAX_HOT_LAUNCHES, Math.round(HOT_SAMPLE_US / us)));

/** Whether the median of the last samples is that of those before them. */
export function settled(samples: readonly number[]): boolean {
  if (samples.length < 2 * SETTLE_WINDOW) return false;
  const recent = median(samples.slice(-SETTLE_WINDOW));
  const before = median(samples.slice(-2 * SETTLE_WINDOW, -SETTLE_WINDOW));
  return Math.abs(recent - before) <= SETTLED_RELATIVE * before;
}

/**
 * When it is looked whether the samples so far are enough: at the fewest that there are to be, and whenever there are a
 * quarter more. Who looked after each sample would stop at the first interval that is narrow by chance.
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

/** Whether an interval is as narrow as is wanted, relative to what it is of. */
export const narrowEnough = (
  { low, high }: { low: number; high: number },
  { of, halfWidth }: { of: number; halfWidth: number },
): boolean => (high - low) / 2 <= halfWidth * of;

export interface BatchClocks {
  /** SM clock of each sample, MHz; 0: not known. */
  clocksMhz: number[];
  /** Whether it was below that of the samples before. */
  fell: boolean[];
  /** Whether NVML names a slow-down by hardware or heat. */
  throttled: boolean;
}

/** What becomes of the slow samples of a batch: places of those to drop, or how many are kept. */
export interface SlowSamples {
  dropped: number[];
  /** Kept though their clock fell. */
  slowed: number;
  /** Kept though the device was throttled. */
  throttled: number;
}

/**
 * In turns nothing is dropped: what it takes turns with has no clock per sample and nobody who looks at NVML, and to
 * drop the slow samples of one side only would flatter
 * it. At the power cap, where the clock wanders by a tenth, that would be every third sample. Alone, a slow sample is
 * dropped, and a throttled batch whole.
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

/** Whether the device slowed down in a sample, by the stamps around it or by what NVML says of the batch. */
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

  /** What is timed from here on is something else: its clocks have nothing to do with those before. */
  startSeries(): void {
    this.#watches = [];
  }

  /**
   * Of each of the `count` samples since the last call. `places`: where in its block each sample stands, again and
   * again; each has a rolling median of its own, because a build that draws more power has a lower clock.
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

  /** How the clocks are known. */
  get source(): string {
    if (!this.#stamps) return 'no clock-stamp kernel was compiled for the device';
    if (this.#simulated) return 'simulated: the emulator counts a cycle a nanosecond';
    return `clock64 over globaltimer, stamped ${STAMPED[this.#mode]} every sample${this.#known < this.#read ? `; known for ${this.#known} of ${this.#read}` : ''}`;
  }
}
