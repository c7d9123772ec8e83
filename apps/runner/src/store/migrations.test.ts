import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { JobState, Outcome } from '@flashcore/shared/contract';
import { collect, finished, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { openDatabase } from './database.ts';
import { FIRST_VERSION, SCHEMA_VERSION, migrate } from './migrations.ts';

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

test.each(Array.from({ length: SCHEMA_VERSION - FIRST_VERSION }, (_, index) => FIRST_VERSION + index))(
  'a database of schema %i with rows in every table is updated and keeps them',
  async (version) => {
    using folder = temporaryFolder();
    const path = join(folder.path, 'flashcore.db');
    const old = new DatabaseSync(path);
    migrate(old, version);
    fill(old);
    const before = rowsOf(old);
    expect([old.prepare('PRAGMA user_version').get(), before['jobs']]).toEqual([{ user_version: version }, 2]);
    old.close();
    openDatabase(path).close();
    const updated = new DatabaseSync(path, { readOnly: true });
    expect(updated.prepare('PRAGMA user_version').get()).toEqual({ user_version: SCHEMA_VERSION });
    expect(rowsOf(updated)).toMatchObject(before);
    updated.close();
    await using fixture = await startTestRunner({ dataDirectory: folder.path });
    expect((await fixture.client.listJobs()).jobs).toHaveLength(2);
    expect(finished(await collect(fixture.client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
  },
);

test.each([
  [99, /^The database has schema version 99, this runner knows \d+: use a newer runner with this data directory$/],
  [16, /^The database has schema version 16 of before the first release, this runner knows 17 and later: use another/],
])('a runner refuses a database of schema %i with the reason, and leaves it unchanged', async (version, message) => {
  using folder = temporaryFolder();
  const path = join(folder.path, 'flashcore.db');
  openDatabase(path).close();
  const other = new DatabaseSync(path);
  other.exec(`PRAGMA user_version = ${version}; CREATE TABLE of_another_version (id INTEGER)`);
  other.close();
  await expect(startTestRunner({ dataDirectory: folder.path })).rejects.toThrow(message);
  const kept = new DatabaseSync(path, { readOnly: true });
  expect(kept.prepare('PRAGMA user_version').get()).toEqual({ user_version: version });
  expect(tablesOf(kept)).toContain('of_another_version');
  kept.close();
});
