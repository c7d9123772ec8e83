import { createHash, randomBytes } from 'node:crypto';
import type { Database } from './database.ts';

/** A pilot that was submitted. */
export interface PilotRow {
  schedulerJob: string;
  partition: string;
  submitMs: number;
  /** It has used its token. */
  registered?: boolean;
}

/** What a pilot showed. */
export type Admission = (PilotRow & { use: 'first' | 'again' }) | 'used' | 'unknown';

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
  submitted({ schedulerJob, partition, submitMs }: PilotRow, token: string): void {
    this.#database
      .prepare('INSERT INTO pilots (scheduler_job, partition, token_sha256, submit_ms) VALUES (?, ?, ?, ?)')
      .run(schedulerJob, partition, digestOf(token), submitMs);
  }

  /** Whose token or session a text is. A token lets in once; the session that came of it lets its pilot in again. */
  admit(secret: string): Admission {
    const digest = digestOf(secret);
    const row = this.#database
      .prepare('SELECT * FROM pilots WHERE token_sha256 = ? OR session_sha256 = ?')
      .get(digest, digest);
    if (!row) return 'unknown';
    const pilot = {
      schedulerJob: row['scheduler_job'] as string,
      partition: row['partition'] as string,
      submitMs: row['submit_ms'] as number,
    };
    if (row['session_sha256'] === digest) return { ...pilot, use: 'again' };
    return row['session_sha256'] === null ? { ...pilot, use: 'first' } : 'used';
  }

  /** Uses a pilot's token up. Errors: DISK_FULL. */
  beginSession(schedulerJob: string, session: string): void {
    this.#database
      .prepare('UPDATE pilots SET session_sha256 = ? WHERE scheduler_job = ?')
      .run(digestOf(session), schedulerJob);
  }

  /** Pilots that have not ended, as far as is known. */
  pilots(): PilotRow[] {
    return this.#database
      .prepare(
        'SELECT scheduler_job, partition, submit_ms, session_sha256 FROM pilots ORDER BY submit_ms, scheduler_job',
      )
      .all()
      .map((row) => ({
        schedulerJob: row['scheduler_job'] as string,
        partition: row['partition'] as string,
        submitMs: row['submit_ms'] as number,
        registered: row['session_sha256'] !== null,
      }));
  }

  ended(schedulerJob: string): void {
    this.#database.prepare('DELETE FROM pilots WHERE scheduler_job = ?').run(schedulerJob);
  }

  /** A new lease; its number is higher than all before, also those of an earlier gateway. Errors: DISK_FULL. */
  lease(job: string, { schedulerJob, node }: { schedulerJob: string; node: string }): number {
    const { lastInsertRowid } = this.#database
      .prepare('INSERT INTO leases (job, scheduler_job, node, start_ms) VALUES (?, ?, ?, ?)')
      .run(job, schedulerJob, node, Date.now());
    return Number(lastInsertRowid);
  }
}

const digestOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');
