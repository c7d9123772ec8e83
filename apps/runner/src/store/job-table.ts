import { JobState, type JobKind, type Outcome } from '@flashcore/shared/contract';
import type { Database } from './database.ts';

/** A stored job. Times are milliseconds since 1970. */
export interface JobRow {
  id: number;
  name: string;
  kind: JobKind;
  state: JobState;
  outcome: Outcome;
  summary: string;
  label: string;
  kernel_id: string;
  device_id: string;
  request_id: string | null;
  request_digest: string | null;
  first_sequence: number;
  last_sequence: number;
  create_ms: number;
  start_ms: number | null;
  end_ms: number | null;
  /** Name of the client; empty for jobs from before owners were stored. */
  owner: string;
  /** A JSON object of strings. */
  labels: string;
  /** Empty for jobs without a kernel and for jobs from before it was stored. */
  code_digest: string;
}

export type NewJob = Pick<
  JobRow,
  | 'name'
  | 'kind'
  | 'label'
  | 'kernel_id'
  | 'device_id'
  | 'request_id'
  | 'request_digest'
  | 'create_ms'
  | 'owner'
  | 'labels'
  | 'code_digest'
>;

/** Newest first, with ids below `before`. Zero and empty filters match all. */
export interface JobQuery {
  limit: number;
  before?: number | undefined;
  state?: JobState | undefined;
  kernelId?: string | undefined;
  /** The job must have all of these labels. */
  labels?: Labels;
}

/** A request that recreates a job after a restart, with the job's limits. */
export interface KeptRequestRow {
  method: string;
  request: Uint8Array;
  /** The client's weight. */
  weight: number;
  maxQueueSeconds: number;
  maxRunSeconds: number;
}

interface JobEnding {
  outcome: Outcome;
  summary: string;
  endMs: number;
  deviceMs?: number | undefined;
}

/** The table of jobs. A job ends exactly once: a trigger refuses a second outcome. */
export class JobTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Stores a job in state QUEUED and returns its id. */
  insert(job: NewJob): number {
    const { lastInsertRowid } = this.#database
      .prepare(
        `INSERT INTO jobs (name, kind, state, label, kernel_id, device_id, request_id, request_digest, create_ms, owner, labels, code_digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        job.name,
        job.kind,
        JobState.QUEUED,
        job.label,
        job.kernel_id,
        job.device_id,
        job.request_id,
        job.request_digest,
        job.create_ms,
        job.owner,
        job.labels,
        job.code_digest,
      );
    return Number(lastInsertRowid);
  }

  /** Stores the request that recreates a job, until the job ends. */
  keepRequest(id: number, { method, request, weight, maxQueueSeconds, maxRunSeconds }: KeptRequestRow): void {
    this.#database
      .prepare(
        'INSERT INTO kept_requests (job_id, method, request, weight, max_queue_seconds, max_run_seconds) VALUES (?, ?, ?, ?, ?, ?)',
      )
      .run(id, method, request, weight, maxQueueSeconds, maxRunSeconds);
  }

  keptRequest(id: number): KeptRequestRow | undefined {
    const row = this.#database.prepare('SELECT * FROM kept_requests WHERE job_id = ?').get(id);
    return (
      row && {
        method: row['method'] as string,
        request: row['request'] as Uint8Array,
        weight: row['weight'] as number,
        maxQueueSeconds: row['max_queue_seconds'] as number,
        maxRunSeconds: row['max_run_seconds'] as number,
      }
    );
  }

  /**
   * No job starts before it was created or ends before it started, even if the machine's clock was set back meanwhile.
   */
  markStarted(id: number, startMs: number): void {
    this.#database
      .prepare('UPDATE jobs SET state = ?, start_ms = MAX(?, create_ms) WHERE id = ? AND state = ?')
      .run(JobState.RUNNING, startMs, id, JobState.QUEUED);
  }

  /** Stores a job's only outcome. Throws if it already has one. */
  markEnded(id: number, end: JobEnding): void {
    this.#database
      .prepare(
        'UPDATE jobs SET state = ?, outcome = ?, summary = ?, end_ms = MAX(?, COALESCE(start_ms, create_ms)), device_ms = ? WHERE id = ?',
      )
      .run(
        JobState.ENDED,
        end.outcome,
        end.summary,
        end.endMs,
        end.deviceMs === undefined ? null : Math.round(end.deviceMs),
        id,
      );
  }

  byName(name: string): JobRow | undefined {
    return this.#row('SELECT * FROM jobs WHERE name = ?', name);
  }

  byId(id: number): JobRow | undefined {
    return this.#row('SELECT * FROM jobs WHERE id = ?', id);
  }

  /** The job of a client's request_id; two clients may use the same id. */
  byRequestId(owner: string, requestId: string): JobRow | undefined {
    return this.#row('SELECT * FROM jobs WHERE owner = ? AND request_id = ?', owner, requestId);
  }

  /** Frees the request_id for the job that replaces this one. */
  releaseRequestId(id: number): void {
    this.#database.prepare('UPDATE jobs SET request_id = NULL WHERE id = ?').run(id);
  }

  /** Device seconds of an owner's ended jobs since a time. */
  deviceSeconds(owner: string, sinceMs: number): number {
    const row = this.#database
      .prepare(
        'SELECT SUM(MIN(end_ms - MAX(start_ms, ?), COALESCE(device_ms, end_ms - start_ms))) / 1000.0 AS seconds FROM jobs WHERE owner = ? AND end_ms > ?',
      )
      .get(sinceMs, owner, sinceMs);
    return (row?.['seconds'] as number | null) ?? 0;
  }

  hasEnded(id: number): boolean {
    const row = this.#database.prepare('SELECT state FROM jobs WHERE id = ?').get(id) as
      { state: JobState } | undefined;
    return row?.state === JobState.ENDED;
  }

  /** Jobs left QUEUED or RUNNING by a runner, oldest first. */
  unfinished(): JobRow[] {
    return this.#rows('SELECT * FROM jobs WHERE state IN (?, ?) ORDER BY id', JobState.QUEUED, JobState.RUNNING);
  }

  /** When the oldest unfinished job was created. */
  oldestUnfinishedMs(): number | undefined {
    const row = this.#database
      .prepare('SELECT create_ms FROM jobs WHERE state IN (?, ?) ORDER BY id LIMIT 1')
      .get(JobState.QUEUED, JobState.RUNNING);
    return row?.['create_ms'] as number | undefined;
  }

  /** Number of ended jobs by outcome. */
  countOutcomes(): { outcome: Outcome; count: number }[] {
    return this.#database
      .prepare('SELECT outcome, COUNT(*) AS count FROM jobs WHERE state = ? GROUP BY outcome ORDER BY outcome')
      .all(JobState.ENDED) as { outcome: Outcome; count: number }[];
  }

  list({ limit, before, state, kernelId, labels = {} }: JobQuery): JobRow[] {
    const conditions = ['id < ?'];
    const values: (number | string)[] = [before ?? Number.MAX_SAFE_INTEGER];
    if (state) {
      conditions.push('state = ?');
      values.push(state);
    }
    if (kernelId) {
      conditions.push('kernel_id = ?');
      values.push(kernelId);
    }
    const labelled = labelConditions(labels);
    conditions.push(...labelled.conditions);
    values.push(...labelled.values);
    return this.#rows(
      `SELECT * FROM jobs WHERE ${conditions.join(' AND ')} ORDER BY id DESC LIMIT ?`,
      ...values,
      limit,
    );
  }

  #row(sql: string, ...values: (number | string)[]): JobRow | undefined {
    return this.#database.prepare(sql).get(...values) as unknown as JobRow | undefined;
  }

  #rows(sql: string, ...values: (number | string)[]): JobRow[] {
    return this.#database.prepare(sql).all(...values) as unknown as JobRow[];
  }
}

/** Labels of a job's request, stored in the column `jobs.labels` as a JSON object of strings. */
export type Labels = Readonly<Record<string, string>>;

/** Equal labels give equal text, whatever their order. */
export const labelsText = (labels: Labels): string =>
  JSON.stringify(Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))));

export const readLabels = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

/** SQL conditions on rows of `jobs`, with their values: the row has all of these labels. */
export function labelConditions(labels: Labels): { conditions: string[]; values: string[] } {
  const entries = Object.entries(labels);
  if (entries.length === 0) return { conditions: [], values: [] };
  // The first condition lets SQLite use the index of labelled jobs.
  return {
    conditions: ["labels <> '{}'", ...entries.map(() => 'json_extract(labels, ?) = ?')],
    values: entries.flatMap(([name, value]) => [`$."${name}"`, value]),
  };
}
