/** A job that stores more events a second than this floods. */
const FLOOD_PER_SECOND = 5_000;
/** Averaging window of the rate. */
const WINDOW_MS = 50;
/**
 * Events that all watchers together get each second while a job floods. A turn of 16 events costs about half a
 * millisecond, so 250 events cost about 1 % of the time. A screen shows fewer lines.
 */
const SHARE_PER_SECOND = 250;
/**
 * Maximum number of events that quiet times can save up. They cover the output of an ordinary compiler, which floods a
 * job for only some milliseconds.
 */
const MOST_SAVED = 64;
/** Events that a watcher gets in one turn. */
const PART = 16;
const LOOK_EVERY_MS = 10;

/**
 * Gives jobs priority over their watchers. Storing and streaming share one thread, and fifty streams that fill up
 * without a reader would slow a job that floods its log by half. While a job floods, all watchers together get a fixed
 * share, in turns, and catch up afterwards. At any other time no watcher waits.
 */
export class StreamShare {
  readonly #now: () => number;
  readonly #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #rate = 0;
  #rateAt = 0;
  #saved = MOST_SAVED;
  #savedAt = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#rateAt = this.#savedAt = now();
  }

  /** Counts events that jobs stored. */
  stored(events: number): void {
    this.#rate = this.#currentRate() + (events * 1000) / WINDOW_MS;
    this.#rateAt = this.#now();
  }

  /**
   * A watcher's turns. Each promise resolves when the watcher may continue, with the most events it may then take: few
   * at first, because it may not be reading, then up to `most`.
   */
  watcher(most: number): () => Promise<number> {
    let next = PART;
    return async () => {
      const waited = this.#floods() && (this.#waiting.length > 0 || !this.#take());
      if (waited) await this.#wait();
      const part = waited || this.#floods() ? PART : next;
      next = Math.min(most, 2 * part);
      return part;
    };
  }

  #wait(): Promise<void> {
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #look(): void {
    const floods = this.#floods();
    while (this.#waiting.length > 0 && (!floods || this.#take())) this.#waiting.shift()!();
    if (this.#waiting.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #take(): boolean {
    this.#saved = Math.min(MOST_SAVED, this.#saved + ((this.#now() - this.#savedAt) * SHARE_PER_SECOND) / 1000);
    this.#savedAt = this.#now();
    if (this.#saved < PART) return false;
    this.#saved -= PART;
    return true;
  }

  #floods(): boolean {
    return this.#currentRate() > FLOOD_PER_SECOND;
  }

  #currentRate(): number {
    return this.#rate * Math.exp((this.#rateAt - this.#now()) / WINDOW_MS);
  }
}
