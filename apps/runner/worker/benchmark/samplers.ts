import type { CudaDriver, DevicePointer, Handle } from '../driver/cuda-driver.ts';
import type { TimingModeName } from '../messages/measuring.ts';
import type { ClockStamps } from './clock-stamps.ts';
import type { JudgeKernels } from './judge-kernels.ts';
import type { TimedBuild } from './timed-build.ts';

/** Takes samples. Every launch of each sample gets new inputs, and every output is checked after the time was taken. */
export interface Sampler {
  readonly launchesPerSample: number;
  /** Returns microseconds per launch. */
  sample(): number;
  close(): void;
}

/** The emulator has no L2. Writing twice the L2 size took longer than the timed launch. */
const SIMULATED_FLUSH_BYTES = 4_096;
/** The stream is held for this multiple of the time the host took to enqueue a sample. */
const HOLD_FACTOR = 3;
const LEAST_HOLD_US = 50;
const MOST_HOLD_US = 5_000;

/**
 * Times isolated launches. Each sample writes new inputs and noise, flushes the L2 by writing twice its size, and then
 * enqueues event, kernel, event. The flush keeps the stream busy meanwhile, so the host's enqueue time is not in the
 * sample. Before the flush, lines that an earlier launch pinned in the L2 are unpinned, because the flush would not
 * evict pinned lines.
 */
export class ColdSampler implements Sampler {
  readonly launchesPerSample = 1;
  readonly #driver: CudaDriver;
  readonly #build: TimedBuild;
  readonly #flushBytes: number;
  readonly #flush: DevicePointer;
  readonly #events: EventPair;
  readonly #stamps: ClockStamps | undefined;

  /** `build` must have one launch. */
  constructor(driver: CudaDriver, build: TimedBuild, stamps?: ClockStamps) {
    this.#driver = driver;
    this.#build = build;
    this.#flushBytes = driver.facts.simulated ? SIMULATED_FLUSH_BYTES : 2 * driver.facts.l2Bytes;
    this.#flush = driver.allocate(this.#flushBytes);
    this.#events = new EventPair(driver);
    this.#stamps = stamps;
  }

  sample(): number {
    this.#driver.resetPersistingL2();
    // Both stamps come before the flush: with one before the flush and one after the kernel, a kernel with tensor maps
    // took 9 % longer (docs/measuring.md).
    this.#stamps?.stamp();
    this.#build.renew();
    this.#stamps?.stamp();
    this.#driver.fill8(this.#flush, 0, this.#flushBytes);
    const us = this.#events.time(() => this.#build.enqueue());
    this.#build.check();
    return us;
  }

  close(): void {
    this.#events.close();
    this.#driver.free(this.#flush);
  }
}

interface HotSamplerParts {
  build: TimedBuild;
  judge: JudgeKernels;
  stamps?: ClockStamps | undefined;
}

/**
 * Times back-to-back launches of a captured graph; the time of one launch is the graph's time over the number of
 * launches. Every replay is timed and checked: while a replay is enqueued, one of the judge's kernels holds the stream.
 * Lines that another build pinned in the L2 are unpinned first, because a candidate must not take cache away from its
 * champion.
 */
export class HotSampler implements Sampler {
  readonly launchesPerSample: number;
  readonly #driver: CudaDriver;
  readonly #judge: JudgeKernels;
  readonly #build: TimedBuild;
  readonly #events: EventPair;
  readonly #stamps: ClockStamps | undefined;
  #holdUs = LEAST_HOLD_US;

  constructor(driver: CudaDriver, { build, judge, stamps }: HotSamplerParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#build = build;
    this.launchesPerSample = build.launches;
    this.#events = new EventPair(driver);
    this.#stamps = stamps;
    build.captureGraphs();
  }

  sample(): number {
    this.#driver.resetPersistingL2();
    this.#build.renew();
    this.#judge.hold(this.#holdUs);
    const started = performance.now();
    this.#stamps?.stamp();
    const us = this.#events.time(
      () => this.#build.enqueueGraph(),
      () => {
        this.#stamps?.stamp();
        this.#holdAs((performance.now() - started) * 1000);
      },
    );
    this.#build.check();
    return us / this.launchesPerSample;
  }

  /** Adapts the hold to the host's enqueue time: it rises at once and falls slowly. */
  #holdAs(hostUs: number): void {
    const wanted = Math.max(LEAST_HOLD_US, HOLD_FACTOR * hostUs);
    this.#holdUs = Math.min(MOST_HOLD_US, Math.max(wanted, 0.9 * this.#holdUs));
  }

  close(): void {
    this.#events.close();
  }
}

/** Two events around work in the stream. */
export class EventPair {
  readonly #driver: CudaDriver;
  readonly #start: Handle;
  readonly #end: Handle;

  constructor(driver: CudaDriver) {
    this.#driver = driver;
    this.#start = driver.createEvent();
    this.#end = driver.createEvent();
  }

  /**
   * Waits for the work and returns the microseconds between the events. `after` enqueues work after the second event.
   */
  time(enqueue: () => void, after: () => void = () => undefined): number {
    this.#driver.recordEvent(this.#start);
    enqueue();
    this.#driver.recordEvent(this.#end);
    after();
    return this.#driver.elapsedUs(this.#start, this.#end);
  }

  close(): void {
    this.#driver.destroyEvent(this.#start);
    this.#driver.destroyEvent(this.#end);
  }
}

export const openSampler = (mode: TimingModeName, driver: CudaDriver, parts: HotSamplerParts): Sampler =>
  mode === 'cold' ? new ColdSampler(driver, parts.build, parts.stamps) : new HotSampler(driver, parts);
