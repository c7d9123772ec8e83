import { crc32 } from 'node:zlib';
import { FlashcoreError } from '@flashcore/shared/contract';
import type { Database } from './database.ts';

/** An event in stored and sent form: JobEvent in protobuf's binary form. */
export interface StoredEvent {
  sequence: number;
  event: Uint8Array;
}

// Limits of one read: large enough that a fast watcher needs few reads, small enough that fifty slow ones cost little
// memory.
export const BATCH_EVENTS = 256;
const BATCH_BYTES = 256 * 1024;

/** The events of all jobs, numbered from 1 without gaps within a job. */
export class EventLog {
  readonly #database: Database;
  #stored = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Number of events stored by this process. */
  get stored(): number {
    return this.#stored;
  }

  /** Stores a job's next events, all or none. Errors: DISK_FULL. */
  append(jobId: number, events: readonly StoredEvent[]): void {
    const last = events.at(-1);
    if (!last) return;
    this.#database.transaction(() => {
      const insert = this.#database.prepare(
        'INSERT INTO events (job_id, sequence, event, checksum) VALUES (?, ?, ?, ?)',
      );
      for (const { sequence, event } of events) insert.run(jobId, sequence, event, checksum(jobId, sequence, event));
      this.#database.prepare('UPDATE jobs SET last_sequence = ? WHERE id = ?').run(last.sequence, jobId);
    });
    this.#stored += events.length;
  }

  /**
   * The next events after a number: at least one if there is one, at most `most`, or about 256 KiB. Errors:
   * DATA_DAMAGED if an event is missing or differs from what was stored.
   */
  readAfter(jobId: number, sequence: number, most = BATCH_EVENTS): StoredEvent[] {
    const select = this.#database.prepare(
      'SELECT sequence, event, checksum FROM events WHERE job_id = ? AND sequence > ? ORDER BY sequence LIMIT ?',
    );
    const batch: StoredEvent[] = [];
    let bytes = 0;
    for (const row of select.iterate(jobId, sequence, most)) {
      const stored = checked(jobId, sequence + batch.length + 1, row as unknown as EventRow);
      batch.push(stored);
      bytes += stored.event.byteLength;
      if (bytes >= BATCH_BYTES) break;
    }
    return batch;
  }

  /** Reads one event, for example the last. Errors: DATA_DAMAGED. */
  read(jobId: number, sequence: number): StoredEvent | undefined {
    const row = this.#database
      .prepare('SELECT sequence, event, checksum FROM events WHERE job_id = ? AND sequence = ?')
      .get(jobId, sequence) as unknown as EventRow | undefined;
    return row && checked(jobId, sequence, row);
  }
}

interface EventRow extends StoredEvent {
  checksum: number | null;
}

function checked(jobId: number, expected: number, { sequence, event, checksum: stored }: EventRow): StoredEvent {
  if (sequence !== expected) throw damaged(jobId, expected);
  if (stored !== null && stored !== checksum(jobId, sequence, event)) throw damaged(jobId, sequence);
  return { sequence, event };
}

/** Detects flipped bits, and an event in another's place. */
const checksum = (jobId: number, sequence: number, event: Uint8Array): number =>
  crc32(event, crc32(`${jobId} ${sequence}`));

/** The error for readers of a job whose log has a gap. */
export const damaged = (jobId: number, sequence: number): FlashcoreError =>
  new FlashcoreError(
    'DATA_DAMAGED',
    { sequence: String(sequence) },
    `Event ${sequence} of this job (number ${jobId}) is missing or damaged: restore the runner's database from a backup (flashcore-runner restore)`,
  );
