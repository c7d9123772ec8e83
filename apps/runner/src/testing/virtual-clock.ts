import type { Clock } from '../fleet/gateway.ts';

interface Due {
  atMs: number;
  order: number;
  work: () => void;
}

/**
 * A clock that jumps to the next due work. While work runs, the clock advances by this thread's CPU time, so that work
 * due meanwhile is late, as in reality.
 */
export class VirtualClock implements Clock {
  /** A binary heap; the earliest is first. */
  readonly #due: Due[] = [];
  #nowMs: number;
  #order = 0;
  #spentMs = 0;

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  /** Whole milliseconds, like the machine's clock. */
  nowMs(): number {
    return Math.floor(this.#nowMs);
  }

  /** CPU time of the work so far. */
  get spentMs(): number {
    return this.#spentMs;
  }

  after(ms: number, work: () => void): void {
    this.#push({ atMs: this.#nowMs + ms, order: this.#order++, work });
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      this.after(ms, resolve);
    });
  }

  /** Runs due work in order, until `done` or none is left. */
  async run(done: () => boolean): Promise<void> {
    for (let next = this.#pop(); next && !done(); next = this.#pop()) {
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      await this.spend(next.work);
    }
  }

  /** Runs work and its immediate consequences, and advances the clock by the CPU time of both. */
  async spend(work: () => void): Promise<void> {
    const before = cpuMs();
    work();
    // First promises, then work deferred to the end of the turn, then its consequences.
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    const spent = cpuMs() - before;
    this.#spentMs += spent;
    this.#nowMs += spent;
  }

  #push(due: Due): void {
    const heap = this.#due;
    let index = heap.push(due) - 1;
    for (let parent = (index - 1) >> 1; index > 0 && isBefore(due, heap[parent]!); parent = (index - 1) >> 1) {
      heap[index] = heap[parent]!;
      heap[(index = parent)] = due;
    }
  }

  #pop(): Due | undefined {
    const heap = this.#due;
    const first = heap[0];
    const last = heap.pop();
    if (!last || last === first) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (child >= heap.length || !isBefore(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

const isBefore = (a: Due, b: Due): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

/** CPU time of this thread only, without file syncs, which run on other threads, and without other programs. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
