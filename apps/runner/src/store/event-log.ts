import type { Database } from './database.ts';

/** An event as it is stored and sent: JobEvent in protobuf's binary form. */
export interface StoredEvent {
  sequence: number;
  event: Uint8Array;
}

// One read's bounds: enough that a fast watcher needs few reads, little enough that fifty slow ones cost no memory.
export const BATCH_EVENTS = 256;
const BATCH_BYTES = 256 * 1024;

/** The events of all jobs, numbered from 1 without gaps within a job. */
export class EventLog {
  readonly #database: Database;
  #stored = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Events stored by this process. */
  get stored(): number {
    return this.#stored;
  }

  /** Stores events that follow the job's last one, all or none. Errors: DISK_FULL. */
  append(jobId: number, events: readonly StoredEvent[]): void {
    const last = events.at(-1);
    if (!last) return;
    this.#database.transaction(() => {
      const insert = this.#database.prepare('INSERT INTO events (job_id, sequence, event) VALUES (?, ?, ?)');
      for (const { sequence, event } of events) insert.run(jobId, sequence, event);
      this.#database.prepare('UPDATE jobs SET last_sequence = ? WHERE id = ?').run(last.sequence, jobId);
    });
    this.#stored += events.length;
  }

  /** The next events after a number: at least one if there is one, at most so many or about 256 KiB of them. */
  readAfter(jobId: number, sequence: number, most = BATCH_EVENTS): StoredEvent[] {
    const select = this.#database.prepare(
      'SELECT sequence, event FROM events WHERE job_id = ? AND sequence > ? ORDER BY sequence LIMIT ?',
    );
    const batch: StoredEvent[] = [];
    let bytes = 0;
    for (const row of select.iterate(jobId, sequence, most)) {
      const stored = row as unknown as StoredEvent;
      batch.push(stored);
      bytes += stored.event.byteLength;
      if (bytes >= BATCH_BYTES) break;
    }
    return batch;
  }

  /** One event, for example the last. */
  read(jobId: number, sequence: number): StoredEvent | undefined {
    return this.#database
      .prepare('SELECT sequence, event FROM events WHERE job_id = ? AND sequence = ?')
      .get(jobId, sequence) as unknown as StoredEvent | undefined;
  }
}
