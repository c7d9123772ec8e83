import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync } from 'node:zlib';
import { toJsonString } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobEventSchema, JobState, Outcome, TimingMode } from '@flashcore/shared/contract';
import { collect, finished, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { openDatabase } from './database.ts';
import { SCHEMA_VERSION, migrate } from './migrations.ts';

/** The version that keyed pilots by their job numbers. */
const BEFORE_PILOT_NUMBERS = 13;
// As written by the program of the first schema; see recorded/README.md.
const OLDEST = gunzipSync(readFileSync(join(import.meta.dirname, 'recorded/schema-1.db.gz')));

function schemaOf(path: string): unknown[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    // An added column is on one line of the schema, while a new table has several.
    const rows = database
      .prepare("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
      .all();
    return [database.prepare('PRAGMA user_version').get(), ...rows];
  } finally {
    database.close();
  }
}

test('a database of the oldest schema is updated: its data is kept, and it takes new jobs', async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, 'flashcore.db');
  writeFileSync(path, OLDEST);
  const old = new DatabaseSync(path);
  const before = old.prepare('SELECT * FROM jobs ORDER BY id').all();
  const events = old.prepare('SELECT job_id, sequence, event FROM events ORDER BY job_id, sequence').all();
  expect([old.prepare('PRAGMA user_version').get(), before.length, events.length]).toEqual([
    { user_version: 1 },
    3,
    97,
  ]);
  // Adds measurements as from a GPU: one from an experiment whose result names its protocol, one from a job whose
  // result names none.
  const copies = old.prepare(
    "INSERT INTO measurements SELECT NULL, ?, kernel_id, 'copied', 'Fake GPU', 0, '2x8x512x64', 1, 1, p50_us, source_digest, entry FROM measurements WHERE id = 1",
  );
  for (const jobId of [1, 3]) copies.run(jobId);
  old.close();

  await using fixture = await startTestRunner({ dataDirectory: folder.path });
  const { jobs } = await fixture.client.listJobs();
  expect(jobs.map(({ name, outcome, owner }) => ({ name, outcome, owner })).reverse()).toEqual(
    [Outcome.PASSED, Outcome.COMPILE_FAILED, Outcome.CANCELLED].map((outcome, index) => ({
      name: before[index]!['name'],
      outcome,
      owner: undefined,
    })),
  );
  const seen = await Promise.all(jobs.map(({ name }) => collect(fixture.client.watch(name))));
  expect(seen.flat()).toHaveLength(events.length);
  const { result } = await fixture.client.getJob({ name: jobs[2]!.name });
  expect(result?.variants[0]?.verify?.passedCases).toBe(1);
  // The reasons were stored as "not measured: …".
  expect(result?.variants[0]?.benchmarks).toMatchObject(
    [TimingMode.COLD, TimingMode.HOT].map((mode) => ({
      mode,
      sdpaMissing: expect.stringMatching(/^the emulator can't run PyTorch's SDPA; /) as string,
      conditions: { notMeasured: 'the emulator has no clocks, temperature or power' },
    })),
  );
  const texts = seen.flat().map((event) => toJsonString(JobEventSchema, event));
  expect(texts.filter((text) => /"not (?:measured|judged): /.test(text))).toEqual([]);
  expect((await fixture.client.listExperiments()).experiments).toMatchObject([
    { job: { name: jobs[2]!.name }, passedCases: 1 },
  ]);
  expect(finished(await collect(fixture.client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
  expect(await fixture.client.getLeaderboard({})).toMatchObject({
    entries: [],
    leftOut: expect.stringMatching(
      /^Left out: 1 measured by flashcore-protocol 1, 1 measured by an unknown protocol; only results by flashcore-protocol \d+, this runner's, compare with each other$/,
    ) as string,
  });
  const migrated = new DatabaseSync(path, { readOnly: true });
  expect(migrated.prepare('SELECT job_id, protocol FROM measurements ORDER BY id').all()).toMatchObject([
    { job_id: 1, protocol: 'flashcore-protocol 1' },
    { job_id: 1, protocol: 'flashcore-protocol 1' },
    { job_id: 3, protocol: '' },
  ]);
  migrated.close();
});

test('a migrated database has the same schema as a new one, and is not migrated twice', () => {
  using folder = temporaryFolder();
  const [migrated, fresh] = [join(folder.path, 'migrated.db'), join(folder.path, 'fresh.db')] as const;
  writeFileSync(migrated, OLDEST);
  for (const path of [migrated, fresh, migrated]) openDatabase(path).close();
  expect(schemaOf(migrated)).toEqual(schemaOf(fresh));
});

/** Tables as they were named in earlier schemas; a migration may not lose their rows. */
const tablesOf = (sqlite: DatabaseSync): string[] =>
  sqlite
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map(({ name }) => name as string);
const rowsOf = (sqlite: DatabaseSync): Record<string, number> =>
  Object.fromEntries(
    tablesOf(sqlite).map((table) => [
      table,
      (sqlite.prepare(`SELECT count(*) AS rows FROM ${table}`).get() as { rows: number }).rows,
    ]),
  );

/** Adds two rows to every table, with a value of its type in each column. */
function fill(sqlite: DatabaseSync): void {
  sqlite.exec('PRAGMA foreign_keys = OFF');
  for (const table of tablesOf(sqlite)) {
    const columns = sqlite.prepare(`PRAGMA table_info(${table})`).all() as { name: string; type: string }[];
    for (const row of [101, 102]) {
      const values = columns.map(({ name, type }) => {
        if (name === 'state') return JobState.ENDED;
        if (name === 'labels') return '{}';
        // Rows refer to the job or experiment of the same number.
        if (type === 'INTEGER') return row;
        if (type === 'REAL') return row / 2;
        return type === 'BLOB' ? new Uint8Array() : `${name} ${row}`;
      });
      const marks = columns.map(() => '?').join(', ');
      sqlite.prepare(`INSERT INTO ${table} VALUES (${marks})`).run(...values);
    }
  }
}

test.each(Array.from({ length: SCHEMA_VERSION - 1 }, (_, index) => index + 1))(
  'a database of schema %i with rows in every table is updated and keeps them',
  async (version) => {
    using folder = temporaryFolder();
    const path = join(folder.path, 'flashcore.db');
    writeFileSync(path, OLDEST);
    const old = new DatabaseSync(path);
    migrate(old, version);
    fill(old);
    const before = rowsOf(old);
    expect([old.prepare('PRAGMA user_version').get(), before['jobs']]).toEqual([{ user_version: version }, 5]);
    old.close();
    openDatabase(path).close();
    const updated = new DatabaseSync(path, { readOnly: true });
    // Older versions kept the leases of ended jobs. The update drops them, and only continues their numbers.
    if (version < BEFORE_PILOT_NUMBERS) delete before['leases'];
    expect(rowsOf(updated)).toMatchObject(before);
    updated.close();
    expect(schemaOf(path)).toEqual(schemaOf(freshIn(folder.path)));
    await using fixture = await startTestRunner({ dataDirectory: folder.path });
    expect((await fixture.client.listJobs()).jobs).toHaveLength(5);
    expect(finished(await collect(fixture.client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
  },
);

function freshIn(folder: string): string {
  const path = join(folder, 'fresh.db');
  openDatabase(path).close();
  return path;
}

test("a gateway's pilots and leases are kept when their keys change from job numbers to ids", () => {
  const sqlite = new DatabaseSync(':memory:');
  migrate(sqlite, BEFORE_PILOT_NUMBERS);
  sqlite.exec(`
    INSERT INTO pilots VALUES ('42', 'gpu', 'token 2', NULL, 1), ('41', 'gpu', 'token 1', 'session', 0);
    INSERT INTO leases VALUES (7, 'jobs/1', '42', 'node1', 0, 1, 5), (8, 'jobs/2', '40', 'node2', 0, 2, 0);`);
  migrate(sqlite);
  const all = (sql: string) =>
    sqlite
      .prepare(sql)
      .all()
      .map((row) => Object.values(row));
  expect(all('SELECT id, scheduler_job, session_sha256 FROM pilots ORDER BY id')).toEqual([
    [1, '41', 'session'],
    [2, '42', null],
  ]);
  // The pilot of the second lease had ended.
  expect(all('SELECT number, job, pilot, attempts, heard FROM leases ORDER BY number')).toEqual([
    [7, 'jobs/1', 2, 1, 5],
    [8, 'jobs/2', 0, 2, 0],
  ]);
  sqlite.close();
});

test('a runner refuses a database of a newer schema with the reason, and leaves it unchanged', async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, 'flashcore.db');
  openDatabase(path).close();
  const newer = new DatabaseSync(path);
  newer.exec('PRAGMA user_version = 99; CREATE TABLE of_tomorrow (id INTEGER)');
  newer.close();
  await expect(startTestRunner({ dataDirectory: folder.path })).rejects.toThrow(
    /^The database has schema version 99, this runner knows \d+: use a newer runner with this data directory$/,
  );
  expect(schemaOf(path)).toContainEqual(expect.objectContaining({ name: 'of_tomorrow' }));
});
