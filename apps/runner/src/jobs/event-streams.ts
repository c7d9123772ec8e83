import { FlashcoreError, invalidRequest } from '@flashcore/shared/contract';
import { BATCH_EVENTS, damaged, type EventLog } from '../store/event-log.ts';
import type { JobRow, JobTable } from '../store/job-table.ts';
import { StreamShare } from './stream-share.ts';

/** A stream of a job's events and its position. */
interface Watcher {
  readonly jobId: number;
  sequence: number;
}

export interface WatchOptions {
  afterSequence: number;
  signal: AbortSignal;
}

/** Streams job events to watchers. */
export class EventStreams {
  readonly feed = new EventFeed();
  readonly #table: JobTable;
  readonly #log: EventLog;
  readonly #share = new StreamShare();
  readonly #watchers = new Set<Watcher>();
  /** By job, the reason why its end could not be stored yet. */
  readonly #held = new Map<number, FlashcoreError>();

  constructor(table: JobTable, log: EventLog) {
    this.#table = table;
    this.#log = log;
  }

  /** For a job whose end can't be stored: until release(), its streams end with this error after the logged events. */
  hold(jobId: number, error: FlashcoreError): void {
    this.#held.set(jobId, error);
    this.feed.notify(jobId);
  }

  /** Lets the job's streams end normally, because its end is stored. */
  release(jobId: number): void {
    this.#held.delete(jobId);
  }

  /** Counts events that were stored. */
  stored(events: number): void {
    this.#share.stored(events);
  }

  statistics(): { watchers: number; eventLag: number } {
    const lags = [...this.#watchers].map(
      ({ jobId, sequence }) => (this.#table.byId(jobId)?.last_sequence ?? sequence) - sequence,
    );
    return { watchers: this.#watchers.size, eventLag: Math.max(0, ...lags) };
  }

  /**
   * A job's events after `afterSequence` (JobEvent in protobuf's binary form), in batches, then new events until the
   * job ends. Events are read from the log when the reader asks, so a slow reader costs no memory. Errors:
   * EVENTS_EXPIRED, INVALID_REQUEST for a number not reached yet; DISK_FULL, STORE_UNAVAILABLE if the job's end can't
   * be stored.
   */
  async *watch(row: JobRow, { afterSequence, signal }: WatchOptions): AsyncGenerator<Uint8Array[]> {
    checkAfterSequence(row, afterSequence);
    const watcher = { jobId: row.id, sequence: afterSequence };
    this.#watchers.add(watcher);
    try {
      yield* this.#eventsFor(watcher, signal);
    } finally {
      this.#watchers.delete(watcher);
    }
  }

  async *#eventsFor(watcher: Watcher, signal: AbortSignal): AsyncGenerator<Uint8Array[]> {
    const { jobId } = watcher;
    const turn = this.#share.watcher(BATCH_EVENTS);
    while (!signal.aborted) {
      const batch = this.#log.readAfter(jobId, watcher.sequence, await turn());
      const last = batch.at(-1);
      if (last) {
        yield batch.map(({ event }) => event);
        watcher.sequence = last.sequence;
      } else if (this.#table.hasEnded(jobId)) {
        // An error is better than a shorter history that looks whole.
        const { last_sequence: expected } = this.#table.byId(jobId)!;
        if (watcher.sequence !== expected) throw damaged(jobId, watcher.sequence + 1);
        return;
      } else {
        const held = this.#held.get(jobId);
        if (held) throw held;
        await this.feed.next(jobId, signal);
      }
    }
  }
}

function checkAfterSequence(row: JobRow, afterSequence: number): void {
  if (afterSequence > row.last_sequence) {
    throw invalidRequest({
      field: 'after_sequence',
      description: `must be at most ${row.last_sequence}, the number of the job's last event so far, got ${afterSequence}`,
    });
  }
  if (afterSequence < row.first_sequence - 1) {
    throw new FlashcoreError(
      'EVENTS_EXPIRED',
      { first: String(row.first_sequence) },
      `The events of ${row.name} before ${row.first_sequence} are no longer kept: watch after event ${row.first_sequence - 1} or later`,
    );
  }
}

/**
 * Wakes callers that wait for a job's next event. The feed carries no events: watchers read them from the log, so a
 * slow watcher costs no memory.
 */
export class EventFeed {
  readonly #waiting = new Map<number, Set<() => void>>();

  /** Wakes the waiters because the job's log has grown. */
  notify(jobId: number): void {
    const waiting = this.#waiting.get(jobId);
    if (!waiting) return;
    this.#waiting.delete(jobId);
    for (const wake of waiting) wake();
  }

  /** Resolves at the job's next notify(), or when the signal is aborted. */
  next(jobId: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(jobId) ?? new Set();
      this.#waiting.set(jobId, waiting);
      const wake = (): void => {
        signal.removeEventListener('abort', wake);
        waiting.delete(wake);
        if (waiting.size === 0 && this.#waiting.get(jobId) === waiting) this.#waiting.delete(jobId);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}
