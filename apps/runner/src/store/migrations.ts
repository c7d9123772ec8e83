import type { DatabaseSync } from 'node:sqlite';
import { fromBinary } from '@bufbuild/protobuf';
import { JobEventSchema } from '@flashcore/shared/contract';

/** The schema's history: the entry at index n migrates version n to n + 1. Released entries never change. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE jobs (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL UNIQUE,
    kind           INTEGER NOT NULL,              -- JobKind
    state          INTEGER NOT NULL,              -- JobState
    outcome        INTEGER NOT NULL DEFAULT 0,    -- Outcome
    summary        TEXT    NOT NULL DEFAULT '',
    label          TEXT    NOT NULL,
    kernel_id      TEXT    NOT NULL,
    device_id      TEXT    NOT NULL,
    request_id     TEXT    UNIQUE,
    request_digest TEXT,                          -- of method and body, to tell a repeated request from a reused id
    first_sequence INTEGER NOT NULL DEFAULT 1,    -- of the events still kept
    last_sequence  INTEGER NOT NULL DEFAULT 0,
    create_ms      INTEGER NOT NULL,
    start_ms       INTEGER,
    end_ms         INTEGER,
    CHECK ((state = 3) = (outcome <> 0)),
    CHECK ((state = 3) = (end_ms IS NOT NULL))
  ) STRICT;
  CREATE INDEX jobs_by_state  ON jobs (state, id);
  CREATE INDEX jobs_by_kernel ON jobs (kernel_id, id);
  CREATE TRIGGER jobs_end_once BEFORE UPDATE OF state, outcome ON jobs WHEN OLD.state = 3
  BEGIN SELECT RAISE(ABORT, 'the job has ended'); END;

  CREATE TABLE events (
    job_id   INTEGER NOT NULL REFERENCES jobs (id),
    sequence INTEGER NOT NULL,
    event    BLOB    NOT NULL,                    -- JobEvent in protobuf's binary form
    PRIMARY KEY (job_id, sequence)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE experiments (
    job_id    INTEGER PRIMARY KEY REFERENCES jobs (id),
    kernel_id TEXT    NOT NULL,
    summary   BLOB    NOT NULL                    -- ExperimentSummary without its job
  ) STRICT;
  CREATE INDEX experiments_by_kernel ON experiments (kernel_id, job_id);

  CREATE TABLE measurements (                     -- hot latency of a variant on a shape
    id            INTEGER PRIMARY KEY,
    job_id        INTEGER NOT NULL REFERENCES jobs (id),
    kernel_id     TEXT    NOT NULL,
    label         TEXT    NOT NULL,
    device_name   TEXT    NOT NULL,
    simulated     INTEGER NOT NULL,               -- 1: emulator times, which never count
    shape         TEXT    NOT NULL,               -- "2x8x512x64"
    valid         INTEGER NOT NULL,               -- 1: correct, and the measurement may stand in a leaderboard
    accepted      INTEGER NOT NULL,               -- 1: valid, and the experiment passed
    p50_us        REAL    NOT NULL,
    source_digest TEXT    NOT NULL,
    entry         BLOB    NOT NULL                -- LeaderboardEntry
  ) STRICT;
  CREATE INDEX measurements_by_place ON measurements (device_name, shape, valid, simulated);
  `,
  `
  ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT ''; -- name of the client; empty for jobs from before
  `,
  `
  CREATE TABLE builds (                           -- what a build_id stands for
    build_id  TEXT PRIMARY KEY,
    tree      BLOB NOT NULL,                      -- SourceTree; its files are in the source store while they are kept
    variant   BLOB NOT NULL,                      -- Variant
    create_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE measurements ADD COLUMN protocol TEXT NOT NULL DEFAULT ''; -- version of the measuring protocol; empty: unknown
  UPDATE measurements SET protocol = protocol_of((SELECT event FROM events JOIN jobs ON jobs.id = job_id AND sequence = last_sequence WHERE job_id = measurements.job_id));
  `,
  `
  ALTER TABLE jobs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}'; -- a JSON object of texts
  CREATE INDEX labelled_jobs ON jobs (id) WHERE labels <> '{}';
  `,
  `
  ALTER TABLE events ADD COLUMN checksum INTEGER;  -- CRC-32 over job, number and event; null: from before
  `,
  `
  CREATE TABLE decisions (                        -- the audit trail; who is champion follows from it
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     INTEGER NOT NULL,                    -- DecisionKind
    job_id   INTEGER NOT NULL REFERENCES jobs (id),
    client   TEXT    NOT NULL,
    time_ms  INTEGER NOT NULL,
    note     TEXT    NOT NULL,
    undoes   INTEGER NOT NULL,                    -- number of the decision that it takes back; 0: none
    champion BLOB                                 -- of an acceptance: Champion without its decision
  ) STRICT;
  CREATE INDEX decisions_by_job ON decisions (job_id, number);
  CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'a decision is never changed'); END;
  CREATE TRIGGER decisions_last BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'a decision is never removed'); END;

  CREATE TABLE decision_requests (                -- answers, for a request that is made again
    request_id     TEXT PRIMARY KEY,
    request_digest TEXT    NOT NULL,
    number         INTEGER NOT NULL REFERENCES decisions (number),
    response       BLOB    NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE sdpa_measurements (                -- SDPA by device, software, backend, shape and mode
    id          INTEGER PRIMARY KEY,
    job_id      INTEGER NOT NULL REFERENCES jobs (id),
    device_name TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    backend     TEXT    NOT NULL,
    shape       TEXT    NOT NULL,
    mode        INTEGER NOT NULL,                 -- TimingMode
    protocol    TEXT    NOT NULL,
    p50_us      REAL    NOT NULL,
    entry       BLOB    NOT NULL                  -- LeaderboardEntry
  ) STRICT;
  CREATE INDEX sdpa_by_place ON sdpa_measurements (device_name, shape, mode, protocol);
  `,
  `
  CREATE TABLE measured_steps (                   -- what a search measured, by all that it depends on
    key       TEXT PRIMARY KEY,                   -- SHA-256
    result    BLOB NOT NULL,                      -- VerifyResult or ShapeComparison in protobuf's binary form
    create_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE measurements ADD COLUMN mode INTEGER NOT NULL DEFAULT 2; -- TimingMode; before it, hot times alone were kept
  `,
  // request_id was unique over all clients; SQLite can change a constraint only by copying the whole table.
  `
  CREATE TABLE new_jobs (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL UNIQUE,
    kind           INTEGER NOT NULL,              -- JobKind
    state          INTEGER NOT NULL,              -- JobState
    outcome        INTEGER NOT NULL DEFAULT 0,    -- Outcome
    summary        TEXT    NOT NULL DEFAULT '',
    label          TEXT    NOT NULL,
    kernel_id      TEXT    NOT NULL,
    device_id      TEXT    NOT NULL,
    owner          TEXT    NOT NULL DEFAULT '',   -- name of the client; empty for jobs from before owners
    request_id     TEXT,
    request_digest TEXT,                          -- of method and body, to tell a repeated request from a reused id
    first_sequence INTEGER NOT NULL DEFAULT 1,    -- of the events still kept
    last_sequence  INTEGER NOT NULL DEFAULT 0,
    create_ms      INTEGER NOT NULL,
    start_ms       INTEGER,
    end_ms         INTEGER,
    labels         TEXT    NOT NULL DEFAULT '{}', -- a JSON object of texts
    UNIQUE (owner, request_id),
    CHECK ((state = 3) = (outcome <> 0)),
    CHECK ((state = 3) = (end_ms IS NOT NULL))
  ) STRICT;
  INSERT INTO new_jobs (id, name, kind, state, outcome, summary, label, kernel_id, device_id, owner, request_id, request_digest, first_sequence, last_sequence, create_ms, start_ms, end_ms, labels)
    SELECT id, name, kind, state, outcome, summary, label, kernel_id, device_id, owner, request_id, request_digest, first_sequence, last_sequence, create_ms, start_ms, end_ms, labels FROM jobs;
  DROP TABLE jobs;
  ALTER TABLE new_jobs RENAME TO jobs;
  CREATE INDEX jobs_by_state  ON jobs (state, id);
  CREATE INDEX jobs_by_kernel ON jobs (kernel_id, id);
  CREATE INDEX labelled_jobs  ON jobs (id) WHERE labels <> '{}';
  CREATE INDEX jobs_by_owner  ON jobs (owner, end_ms);
  CREATE TRIGGER jobs_end_once BEFORE UPDATE OF state, outcome ON jobs WHEN OLD.state = 3
  BEGIN SELECT RAISE(ABORT, 'the job has ended'); END;

  CREATE TABLE new_decision_requests (            -- answers, for a request that is made again
    client         TEXT    NOT NULL,
    request_id     TEXT    NOT NULL,
    request_digest TEXT    NOT NULL,
    number         INTEGER NOT NULL REFERENCES decisions (number),
    response       BLOB    NOT NULL,
    PRIMARY KEY (client, request_id)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO new_decision_requests
    SELECT client, request_id, request_digest, number, response FROM decision_requests JOIN decisions USING (number);
  DROP TABLE decision_requests;
  ALTER TABLE new_decision_requests RENAME TO decision_requests;
  `,
  `
  CREATE TABLE pilots (                           -- runners on nodes of a cluster, for a gateway
    scheduler_job  TEXT PRIMARY KEY,
    partition      TEXT    NOT NULL,
    token_sha256   TEXT    NOT NULL UNIQUE,       -- of the one-time token
    session_sha256 TEXT    UNIQUE,                -- set by its use
    submit_ms      INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE leases (                           -- which pilot had which job
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    job           TEXT    NOT NULL,
    scheduler_job TEXT    NOT NULL,
    node          TEXT    NOT NULL,
    start_ms      INTEGER NOT NULL
  ) STRICT;
  `,
  `
  ALTER TABLE jobs ADD COLUMN device_ms INTEGER; -- how long it had its device; null: from start to end
  `,
  // A lease is needed until its job ends, and a job has at most one.
  `
  ALTER TABLE leases RENAME TO old_leases;
  CREATE TABLE leases (                           -- which pilot has which job
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    job           TEXT    NOT NULL UNIQUE,
    scheduler_job TEXT    NOT NULL,
    node          TEXT    NOT NULL,
    start_ms      INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,               -- of the job, that its events tell of
    heard         INTEGER NOT NULL                -- the pilot's number of the last event that was stored
  ) STRICT;
  INSERT INTO sqlite_sequence (name, seq) SELECT 'leases', MAX(number) FROM old_leases HAVING MAX(number) > 0;
  DROP TABLE old_leases;
  CREATE TABLE kept_requests (                    -- of jobs that a restart of the gateway does not end
    job_id            INTEGER PRIMARY KEY REFERENCES jobs (id),
    method            TEXT    NOT NULL,
    request           BLOB    NOT NULL,           -- in protobuf's binary form; kernels are source trees
    weight            REAL    NOT NULL,           -- of its client
    max_queue_seconds INTEGER NOT NULL,
    max_run_seconds   INTEGER NOT NULL
  ) STRICT;
  CREATE TRIGGER job_ends AFTER UPDATE OF state ON jobs WHEN NEW.state = 3
  BEGIN
    DELETE FROM leases WHERE job = NEW.name;
    DELETE FROM kept_requests WHERE job_id = NEW.id;
  END;
  `,
  // A controller that lost its state may reuse a job number while the first job is still running.
  `
  ALTER TABLE pilots RENAME TO old_pilots;
  CREATE TABLE pilots (                           -- runners on nodes of a cluster, for a gateway
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    scheduler_job  TEXT    NOT NULL,              -- the scheduler's number of it
    partition      TEXT    NOT NULL,
    token_sha256   TEXT    NOT NULL UNIQUE,       -- of the one-time token
    session_sha256 TEXT    UNIQUE,                -- set by its use
    submit_ms      INTEGER NOT NULL
  ) STRICT;
  INSERT INTO pilots (scheduler_job, partition, token_sha256, session_sha256, submit_ms)
    SELECT scheduler_job, partition, token_sha256, session_sha256, submit_ms FROM old_pilots
    ORDER BY submit_ms, scheduler_job;
  ALTER TABLE leases ADD COLUMN pilot INTEGER NOT NULL DEFAULT 0; -- 0: one that has ended
  UPDATE leases SET pilot = COALESCE((SELECT id FROM pilots WHERE pilots.scheduler_job = leases.scheduler_job), 0);
  ALTER TABLE leases DROP COLUMN scheduler_job;
  DROP TABLE old_pilots;
  `,
  // Earlier, only measurements of fp16 tensors were stored.
  `
  ALTER TABLE measurements ADD COLUMN dtype TEXT NOT NULL DEFAULT 'fp16';
  ALTER TABLE sdpa_measurements ADD COLUMN dtype TEXT NOT NULL DEFAULT 'fp16';
  `,
  // Earlier results are not ranked, because their submitter chose the rules.
  `
  ALTER TABLE decisions ADD COLUMN role TEXT NOT NULL DEFAULT '';          -- of the client; empty: from before it was noted
  ALTER TABLE decisions ADD COLUMN evidence BLOB;                          -- Evidence; null: no acceptance, or from before ranked runs
  ALTER TABLE measurements ADD COLUMN ranked INTEGER NOT NULL DEFAULT 0;   -- 1: of a ranked run
  `,
  // Earlier, only attention was timed.
  `
  ALTER TABLE measurements ADD COLUMN problem TEXT NOT NULL DEFAULT 'attention';
  ALTER TABLE sdpa_measurements ADD COLUMN problem TEXT NOT NULL DEFAULT 'attention';
  `,
  `
  ALTER TABLE jobs ADD COLUMN code_digest TEXT NOT NULL DEFAULT ''; -- of kernel.yaml and the sources; empty: from before, or no kernel
  `,
  // Limits may have fractions of seconds.
  `
  ALTER TABLE kept_requests RENAME COLUMN max_queue_seconds TO whole_queue_seconds;
  ALTER TABLE kept_requests RENAME COLUMN max_run_seconds TO whole_run_seconds;
  ALTER TABLE kept_requests ADD COLUMN max_queue_seconds REAL NOT NULL DEFAULT 0;
  ALTER TABLE kept_requests ADD COLUMN max_run_seconds REAL NOT NULL DEFAULT 0;
  UPDATE kept_requests SET max_queue_seconds = whole_queue_seconds, max_run_seconds = whole_run_seconds;
  ALTER TABLE kept_requests DROP COLUMN whole_queue_seconds;
  ALTER TABLE kept_requests DROP COLUMN whole_run_seconds;
  `,
];

/** The schema version of this runner. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** The database belongs to a newer runner. */
export class SchemaTooNew extends Error {
  override readonly name = 'SchemaTooNew';

  constructor(version: number) {
    super(
      `The database has schema version ${version}, this runner knows ${SCHEMA_VERSION}: use a newer runner with this data directory`,
    );
  }
}

/** Migrates the schema to the current or a given version, one transaction per version. Throws SchemaTooNew. */
export function migrate(sqlite: DatabaseSync, wanted = SCHEMA_VERSION): void {
  const row = sqlite.prepare('PRAGMA user_version').get() as { user_version: number };
  if (row.user_version > SCHEMA_VERSION) throw new SchemaTooNew(row.user_version);
  sqlite.function('protocol_of', { deterministic: true }, (event) => protocolOf(event as Uint8Array | null));
  if (row.user_version === SCHEMA_VERSION) return;
  // Copying a table removes it for a moment while others refer to it (https://sqlite.org/lang_altertable.html, section
  // 7); the check can't be turned off within a transaction.
  sqlite.exec('PRAGMA foreign_keys = OFF');
  for (let version = row.user_version; version < wanted; version += 1) {
    sqlite.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[version]}; PRAGMA user_version = ${version + 1}; COMMIT;`);
  }
  const broken = sqlite.prepare('PRAGMA foreign_key_check').all();
  if (broken.length > 0) throw new Error(`${broken.length} rows of the migrated database refer to nothing`);
  sqlite.exec('PRAGMA foreign_keys = ON');
}

/**
 * The measuring protocol in the birth certificate of a job's last event (JobEvent in protobuf's binary form); empty if
 * there is none.
 */
function protocolOf(event: Uint8Array | null): string {
  const payload = event ? fromBinary(JobEventSchema, event).payload : undefined;
  return payload?.case === 'finished' ? (payload.value.result?.provenance?.protocol ?? '') : '';
}
