import type { DatabaseSync } from 'node:sqlite';

/** The version of FIRST_SCHEMA. Databases of earlier ones are from before the first release, and are refused. */
export const FIRST_VERSION = 17;

const FIRST_SCHEMA = `
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
    owner          TEXT    NOT NULL DEFAULT '',   -- name of the client; empty for jobs from before owners
    request_id     TEXT,
    request_digest TEXT,                          -- of method and body, to tell a repeated request from a reused id
    first_sequence INTEGER NOT NULL DEFAULT 1,    -- of the events still kept
    last_sequence  INTEGER NOT NULL DEFAULT 0,
    create_ms      INTEGER NOT NULL,
    start_ms       INTEGER,
    end_ms         INTEGER,
    labels         TEXT    NOT NULL DEFAULT '{}', -- a JSON object of texts
    device_ms      INTEGER,                       -- how long it had its device; null: from start to end
    UNIQUE (owner, request_id),
    CHECK ((state = 3) = (outcome <> 0)),
    CHECK ((state = 3) = (end_ms IS NOT NULL))
  ) STRICT;
  CREATE INDEX jobs_by_state  ON jobs (state, id);
  CREATE INDEX jobs_by_kernel ON jobs (kernel_id, id);
  CREATE INDEX labelled_jobs  ON jobs (id) WHERE labels <> '{}';
  CREATE INDEX jobs_by_owner  ON jobs (owner, end_ms);
  CREATE TRIGGER jobs_end_once BEFORE UPDATE OF state, outcome ON jobs WHEN OLD.state = 3
  BEGIN SELECT RAISE(ABORT, 'the job has ended'); END;

  CREATE TABLE events (
    job_id   INTEGER NOT NULL REFERENCES jobs (id),
    sequence INTEGER NOT NULL,
    event    BLOB    NOT NULL,                    -- JobEvent in protobuf's binary form
    checksum INTEGER,                             -- CRC-32 over job, number and event; null: from before checksums
    PRIMARY KEY (job_id, sequence)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE experiments (
    job_id    INTEGER PRIMARY KEY REFERENCES jobs (id),
    kernel_id TEXT    NOT NULL,
    summary   BLOB    NOT NULL                    -- ExperimentSummary without its job
  ) STRICT;
  CREATE INDEX experiments_by_kernel ON experiments (kernel_id, job_id);

  CREATE TABLE measurements (                     -- latency of a variant on a shape
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
    entry         BLOB    NOT NULL,               -- LeaderboardEntry
    protocol      TEXT    NOT NULL DEFAULT '',    -- version of the measuring protocol; empty: unknown
    mode          INTEGER NOT NULL DEFAULT 2,     -- TimingMode
    dtype         TEXT    NOT NULL DEFAULT 'fp16',
    ranked        INTEGER NOT NULL DEFAULT 0,     -- 1: of a ranked run
    problem       TEXT    NOT NULL DEFAULT 'attention'
  ) STRICT;
  CREATE INDEX measurements_by_place ON measurements (device_name, shape, valid, simulated);

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
    entry       BLOB    NOT NULL,                 -- LeaderboardEntry
    dtype       TEXT    NOT NULL DEFAULT 'fp16',
    problem     TEXT    NOT NULL DEFAULT 'attention'
  ) STRICT;
  CREATE INDEX sdpa_by_place ON sdpa_measurements (device_name, shape, mode, protocol);

  CREATE TABLE builds (                           -- what a build_id stands for
    build_id  TEXT PRIMARY KEY,
    tree      BLOB NOT NULL,                      -- SourceTree; its files are in the source store while they are kept
    variant   BLOB NOT NULL,                      -- Variant
    create_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE measured_steps (                   -- what a search measured, by all that it depends on
    key       TEXT PRIMARY KEY,                   -- SHA-256
    result    BLOB NOT NULL,                      -- VerifyResult or ShapeComparison in protobuf's binary form
    create_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE decisions (                        -- the audit trail; who is champion follows from it
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     INTEGER NOT NULL,                    -- DecisionKind
    job_id   INTEGER NOT NULL REFERENCES jobs (id),
    client   TEXT    NOT NULL,
    time_ms  INTEGER NOT NULL,
    note     TEXT    NOT NULL,
    undoes   INTEGER NOT NULL,                    -- number of the decision that it takes back; 0: none
    champion BLOB,                                -- of an acceptance: Champion without its decision
    role     TEXT    NOT NULL DEFAULT '',         -- of the client; empty: from before it was noted
    evidence BLOB                                 -- Evidence; null: no acceptance, or from before ranked runs
  ) STRICT;
  CREATE INDEX decisions_by_job ON decisions (job_id, number);
  CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'a decision is never changed'); END;
  CREATE TRIGGER decisions_last BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'a decision is never removed'); END;

  CREATE TABLE decision_requests (                -- answers, for a request that is made again
    client         TEXT    NOT NULL,
    request_id     TEXT    NOT NULL,
    request_digest TEXT    NOT NULL,
    number         INTEGER NOT NULL REFERENCES decisions (number),
    response       BLOB    NOT NULL,
    PRIMARY KEY (client, request_id)
  ) STRICT, WITHOUT ROWID;

  -- A controller that lost its state may reuse a job number while the first job is still running, so a pilot has an id.
  CREATE TABLE pilots (                           -- runners on nodes of a cluster, for a gateway
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    scheduler_job  TEXT    NOT NULL,              -- the scheduler's number of it
    partition      TEXT    NOT NULL,
    token_sha256   TEXT    NOT NULL UNIQUE,       -- of the one-time token
    session_sha256 TEXT    UNIQUE,                -- set by its use
    submit_ms      INTEGER NOT NULL
  ) STRICT;

  -- A lease is needed until its job ends, and a job has at most one.
  CREATE TABLE leases (                           -- which pilot has which job
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    job           TEXT    NOT NULL UNIQUE,
    node          TEXT    NOT NULL,
    start_ms      INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,               -- of the job, that its events tell of
    heard         INTEGER NOT NULL,               -- the pilot's number of the last event that was stored
    pilot         INTEGER NOT NULL DEFAULT 0      -- 0: one that has ended
  ) STRICT;
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
`;

/** The schema's history: the entry at index n migrates version FIRST_VERSION + n. Released entries never change. */
const MIGRATIONS: readonly string[] = [
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
export const SCHEMA_VERSION = FIRST_VERSION + MIGRATIONS.length;

/** The database belongs to a newer runner, or is from before the first release. */
export class UnknownSchema extends Error {
  override readonly name = 'UnknownSchema';

  constructor(version: number) {
    super(
      version > SCHEMA_VERSION
        ? `The database has schema version ${version}, this runner knows ${SCHEMA_VERSION}: use a newer runner with this data directory`
        : `The database has schema version ${version} of before the first release, this runner knows ${FIRST_VERSION} and later: use another data directory`,
    );
  }
}

/** Throws UnknownSchema unless this runner can migrate databases of this version. */
export function requireKnownSchema(version: number): void {
  if (version < FIRST_VERSION || version > SCHEMA_VERSION) throw new UnknownSchema(version);
}

/** Makes or migrates the schema, one transaction per version, up to the given one. Throws UnknownSchema. */
export function migrate(sqlite: DatabaseSync, wanted = SCHEMA_VERSION): void {
  const row = sqlite.prepare('PRAGMA user_version').get() as { user_version: number };
  const isNew = row.user_version === 0;
  if (isNew) setUp(sqlite, FIRST_SCHEMA, FIRST_VERSION);
  else requireKnownSchema(row.user_version);
  for (let version = isNew ? FIRST_VERSION : row.user_version; version < wanted; version += 1)
    setUp(sqlite, MIGRATIONS[version - FIRST_VERSION]!, version + 1);
}

function setUp(sqlite: DatabaseSync, sql: string, version: number): void {
  sqlite.exec(`BEGIN IMMEDIATE; ${sql}; PRAGMA user_version = ${version}; COMMIT;`);
}
