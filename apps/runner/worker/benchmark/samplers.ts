import type { CudaDriver, DevicePointer, Handle } from '../driver/cuda-driver.ts';
import type { ClockStamps } from './clock-stamps.ts';
import type { InputRotation, InputSet } from './input-rotation.ts';

/** Takes one sample: microseconds a launch, and the set whose output it wrote last. */
export interface Sampler {
  readonly launchesPerSample: number;
  sample(): { us: number; set: InputSet };
  close(): void;
}

/** The emulator has no L2: writing twice its size took longer than what was timed. */
const SIMULATED_FLUSH_BYTES = 4_096;

/**
 * Isolated launches: inputs changed a little, outputs poisoned, the L2 flushed by writing twice its size, then event,
 * kernel, event. The flush keeps the
 * stream busy while the three are enqueued, so that the host's time to do so is not in the sample. Lines that an
 * earlier launch pinned in the L2 lose that
 * before the flush, which would else pass them by.
 */
export class ColdSampler implements Sampler {
  readonly launchesPerSample = 1;
  readonly #driver: CudaDriver;
  readonly #rotation: InputRotation;
  readonly #flushBytes: number;
  readonly #flush: DevicePointer;
  readonly #events: EventPair;
  readonly #stamps: ClockStamps | undefined;

  constructor(driver: CudaDriver, rotation: InputRotation, stamps?: ClockStamps) {
    this.#driver = driver;
    this.#rotation = rotation;
    this.#flushBytes = driver.facts.simulated ? SIMULATED_FLUSH_BYTES : 2 * driver.facts.l2Bytes;
    this.#flush = driver.allocate(this.#flushBytes);
    this.#events = new EventPair(driver);
    this.#stamps = stamps;
  }

  sample(): { us: number; set: InputSet } {
    this.#driver.resetPersistingL2();
    const set = this.#rotation.advance();
    // Both stamps here: with one before the flush and one after the kernel, a kernel with tensor maps was seen to take
    // 9 % longer (docs/measuring.md).
    this.#stamps?.stamp();
    set.fresh.change();
    this.#rotation.poison();
    this.#stamps?.stamp();
    this.#driver.fill8(this.#flush, 0, this.#flushBytes);
    const us = this.#events.time(() => this.#rotation.loaded.enqueue(set.prepared));
    return { us, set };
  }

  close(): void {
    this.#events.close();
    this.#driver.free(this.#flush);
  }
}

/**
 * Back-to-back launches of a captured graph, over all input sets in turn; the time of one launch is the graph's over
 * their number. A replay that is not
 * timed keeps the stream busy while inputs are changed a little, outputs poisoned and the timed one enqueued, so that
 * the host's time to do so is not in
 * the sample.
 */
export class HotSampler implements Sampler {
  /** Of what was asked for, those that there are initial values for. */
  readonly launchesPerSample: number;
  readonly #driver: CudaDriver;
  readonly #rotation: InputRotation;
  readonly #graph: Handle;
  readonly #last: InputSet;
  readonly #events: EventPair;
  readonly #stamps: ClockStamps | undefined;

  constructor(
    driver: CudaDriver,
    rotation: InputRotation,
    { launchesPerSample, stamps }: { launchesPerSample: number; stamps?: ClockStamps | undefined },
  ) {
    this.#driver = driver;
    this.#rotation = rotation;
    const sets = rotation.setsOfLaunches(launchesPerSample);
    this.launchesPerSample = sets.length;
    this.#graph = driver.captureGraph(() => {
      for (const { prepared } of sets) rotation.loaded.enqueue(prepared);
    });
    this.#last = sets.at(-1)!;
    this.#events = new EventPair(driver);
    this.#stamps = stamps;
  }

  sample(): { us: number; set: InputSet } {
    this.#driver.launchGraph(this.#graph);
    for (const set of this.#rotation.sets) set.fresh.change();
    this.#rotation.poison();
    this.#stamps?.stamp();
    const us =
      this.#events.time(
        () => this.#driver.launchGraph(this.#graph),
        () => this.#stamps?.stamp(),
      ) / this.launchesPerSample;
    return { us, set: this.#last };
  }

  close(): void {
    this.#events.close();
    this.#driver.destroyGraph(this.#graph);
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

  /** Waits for the work; microseconds between the events. `after` is enqueued behind them. */
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
