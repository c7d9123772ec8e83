import { createHash, randomBytes } from 'node:crypto';
import type { Database } from './database.ts';

/** A pilot that was submitted. */
export interface PilotRow {
  /** Its number here; no two have the same, ever. */
  id: number;
  /** Its number at the scheduler, which may give it again. */
  schedulerJob: string;
  partition: string;
  submitMs: number;
  /** It has used its token. */
  registered?: boolean;
}

/** What a pilot showed. */
export type Admission = (PilotRow & { use: 'first' | 'again' }) | 'used' | 'dismissed' | 'unknown';

/** Stands for the session of a pilot that is not let in any more; no digest equals it. */
const DISMISSED = 'dismissed';

/** A job that a pilot has. */
export interface LeaseRow {
  number: number;
  job: string;
  /** The pilot's number here. */
  pilot: number;
  node: string;
  /** Attempts of the job that its events tell of. */
  attempts: number;
  /** The pilot's number of the last event that was stored. */
  heard: number;
}

const SECRET_BYTES = 32;

/** A gateway's pilots and leases. Of tokens and sessions digests alone are kept. */
export class FleetTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** A secret that nobody can guess. */
  static secret(): string {
    return randomBytes(SECRET_BYTES).toString('base64url');
  }

  /** Resolves when sessions and leases are on the disk: their pilots are told then. Errors: DISK_FULL. */
  synced(): Promise<void> {
    return this.#database.synced();
  }

  /** Errors: DISK_FULL. */
  submitted({ schedulerJob, partition, submitMs }: Omit<PilotRow, 'id'>, token: string): void {
    this.#database
      .prepare('INSERT INTO pilots (scheduler_job, partition, token_sha256, submit_ms) VALUES (?, ?, ?, ?)')
      .run(schedulerJob, partition, digestOf(token), submitMs);
  }

  /** Whose token it is. It lets one pilot in, and then whoever shows the same session, until the pilot has ended. */
  admit({ token, session }: { token: string; session: string }): Admission {
    const row = this.#database.prepare('SELECT * FROM pilots WHERE token_sha256 = ?').get(digestOf(token));
    if (!row) return 'unknown';
    const pilot = {
      id: row['id'] as number,
      schedulerJob: row['scheduler_job'] as string,
      partition: row['partition'] as string,
      submitMs: row['submit_ms'] as number,
    };
    if (row['session_sha256'] === digestOf(session)) return { ...pilot, use: 'again' };
    if (row['session_sha256'] === null) return { ...pilot, use: 'first' };
    return row['session_sha256'] === DISMISSED ? 'dismissed' : 'used';
  }

  /** The pilot whose session a text is; undefined: of none that has not ended. */
  pilotOf(session: string): number | undefined {
    const row = this.#database.prepare('SELECT id FROM pilots WHERE session_sha256 = ?').get(digestOf(session));
    return row?.['id'] as number | undefined;
  }

  /** Uses a pilot's token up. Errors: DISK_FULL. */
  beginSession(pilot: number, session: string): void {
    const update = this.#database.prepare('UPDATE pilots SET session_sha256 = ? WHERE id = ?');
    this.#database.transaction(() => update.run(digestOf(session), pilot));
  }

  /** Makes a pilot's token and session useless. Errors: DISK_FULL. */
  endSession(pilot: number): void {
    const update = this.#database.prepare('UPDATE pilots SET session_sha256 = ? WHERE id = ?');
    this.#database.transaction(() => update.run(DISMISSED, pilot));
  }

  /** Pilots that have not ended, as far as is known. */
  pilots(): PilotRow[] {
    return this.#database
      .prepare('SELECT id, scheduler_job, partition, submit_ms, session_sha256 FROM pilots ORDER BY id')
      .all()
      .map((row) => ({
        id: row['id'] as number,
        schedulerJob: row['scheduler_job'] as string,
        partition: row['partition'] as string,
        submitMs: row['submit_ms'] as number,
        registered: row['session_sha256'] !== null,
      }));
  }

  ended(pilot: number): void {
    this.#database.prepare('DELETE FROM pilots WHERE id = ?').run(pilot);
  }

  /**
   * A job's new lease, in the place of the one that it had; its number is higher than all before, also those of an
   * earlier gateway. Errors: DISK_FULL.
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

  /** The last lease of a job that has not ended. */
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

  /** Notes that a job's events tell of its n-th attempt; to be part of the transaction that stores that. */
  attempted(lease: number, attempts: number): void {
    this.#database.prepare('UPDATE leases SET attempts = ? WHERE number = ?').run(attempts, lease);
  }

  /** Notes how far a pilot's events are stored; to be part of the transaction that stores them. */
  heard(lease: number, sequence: number): void {
    this.#database.prepare('UPDATE leases SET heard = ? WHERE number = ?').run(sequence, lease);
  }
}

const digestOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');
