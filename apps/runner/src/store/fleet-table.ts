import { createHash, randomBytes } from 'node:crypto';
import type { Database } from './database.ts';

/** A submitted pilot. */
export interface PilotRow {
  /** The pilot's number in this table, never reused. */
  id: number;
  /** The pilot's number at the scheduler, which may reuse it. */
  schedulerJob: string;
  partition: string;
  submitMs: number;
  /** Whether the pilot has used its token. */
  registered?: boolean;
}

/** The answer to a pilot's token and session. */
export type Admission = (PilotRow & { use: 'first' | 'again' }) | 'used' | 'dismissed' | 'unknown';

/** Replaces the session digest of a pilot that may no longer register; no real digest equals it. */
const DISMISSED = 'dismissed';

/** A job leased to a pilot. */
export interface LeaseRow {
  number: number;
  job: string;
  /** The pilot's number in this table. */
  pilot: number;
  node: string;
  /** Number of attempts in the job's events. */
  attempts: number;
  /** Number of the last stored event, as the pilot counts its events. */
  heard: number;
}

const SECRET_BYTES = 32;

/** A gateway's pilots and leases. Tokens and sessions are stored only as digests. */
export class FleetTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Makes a random secret. */
  static secret(): string {
    return randomBytes(SECRET_BYTES).toString('base64url');
  }

  /** Resolves when sessions and leases are on the disk; pilots are answered only then. Errors: DISK_FULL. */
  synced(): Promise<void> {
    return this.#database.synced();
  }

  /** Stores a submitted pilot. Errors: DISK_FULL. */
  submitted({ schedulerJob, partition, submitMs }: Omit<PilotRow, 'id'>, token: string): void {
    this.#database
      .prepare('INSERT INTO pilots (scheduler_job, partition, token_sha256, submit_ms) VALUES (?, ?, ?, ?)')
      .run(schedulerJob, partition, digestOf(token), submitMs);
  }

  /**
   * Finds the pilot of a token. A token admits one pilot, and then only the same session, until the pilot has ended.
   */
  admit({ token, session }: { token: string; session: string }): Admission {
    const row = this.#database.prepare('SELECT * FROM pilots WHERE token_sha256 = ?').get(digestOf(token));
    if (!row) return 'unknown';
    const pilot = pilotOf(row);
    if (row['session_sha256'] === digestOf(session)) return { ...pilot, use: 'again' };
    if (row['session_sha256'] === null) return { ...pilot, use: 'first' };
    return row['session_sha256'] === DISMISSED ? 'dismissed' : 'used';
  }

  /** The unfinished pilot with a session; undefined if there is none. */
  pilotOf(session: string): number | undefined {
    const row = this.#database.prepare('SELECT id FROM pilots WHERE session_sha256 = ?').get(digestOf(session));
    return row?.['id'] as number | undefined;
  }

  /** Uses up a pilot's token. Errors: DISK_FULL. */
  beginSession(pilot: number, session: string): void {
    const update = this.#database.prepare('UPDATE pilots SET session_sha256 = ? WHERE id = ?');
    this.#database.transaction(() => update.run(digestOf(session), pilot));
  }

  /** Invalidates a pilot's token and session. Errors: DISK_FULL. */
  endSession(pilot: number): void {
    const update = this.#database.prepare('UPDATE pilots SET session_sha256 = ? WHERE id = ?');
    this.#database.transaction(() => update.run(DISMISSED, pilot));
  }

  /** Pilots that are not known to have ended. */
  pilots(): PilotRow[] {
    return this.#database
      .prepare('SELECT id, scheduler_job, partition, submit_ms, session_sha256 FROM pilots ORDER BY id')
      .all()
      .map((row) => ({ ...pilotOf(row), registered: row['session_sha256'] !== null }));
  }

  ended(pilot: number): void {
    this.#database.prepare('DELETE FROM pilots WHERE id = ?').run(pilot);
  }

  /**
   * Replaces a job's lease with a new one, whose number is higher than all earlier ones, including those of an earlier
   * gateway. Errors: DISK_FULL.
   */
  lease(job: string, { id, node }: { id: number; node: string }): number {
    return this.#database.transaction(() => {
      const attempts = this.leaseOf(job)?.attempts ?? 0;
      this.#database.prepare('DELETE FROM leases WHERE job = ?').run(job);
      const { lastInsertRowid } = this.#database
        .prepare('INSERT INTO leases (job, pilot, node, start_ms, attempts, heard) VALUES (?, ?, ?, ?, ?, 0)')
        .run(job, id, node, Date.now(), attempts);
      return Number(lastInsertRowid);
    });
  }

  /** The last lease of an unfinished job. */
  leaseOf(job: string): LeaseRow | undefined {
    const row = this.#database.prepare('SELECT * FROM leases WHERE job = ?').get(job);
    return (
      row && {
        number: row['number'] as number,
        job,
        pilot: row['pilot'] as number,
        node: row['node'] as string,
        attempts: row['attempts'] as number,
        heard: row['heard'] as number,
      }
    );
  }

  /** Records the number of attempts in a job's events; must run in the transaction that stores the event. */
  attempted(lease: number, attempts: number): void {
    this.#database.prepare('UPDATE leases SET attempts = ? WHERE number = ?').run(attempts, lease);
  }

  /** Records which of a pilot's events are stored; must run in the transaction that stores them. */
  heard(lease: number, sequence: number): void {
    this.#database.prepare('UPDATE leases SET heard = ? WHERE number = ?').run(sequence, lease);
  }
}

const digestOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');

const pilotOf = (row: Record<string, unknown>): PilotRow => ({
  id: row['id'] as number,
  schedulerJob: row['scheduler_job'] as string,
  partition: row['partition'] as string,
  submitMs: row['submit_ms'] as number,
});
