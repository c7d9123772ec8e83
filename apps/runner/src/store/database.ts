import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { migrate } from './migrations.ts';
import { storageError } from './storage-error.ts';

/**
 * The runner's SQLite database: one connection, synchronous, every commit on disk before the call returns (WAL,
 * synchronous FULL).
 */
export interface Database {
  /** Prepares a statement, or gives the one prepared before. */
  prepare(sql: string): StatementSync;
  /**
   * Runs `work` in one transaction; inside another one, as part of it. Errors: DISK_FULL; what `work` throws, after
   * undoing all of it.
   */
  transaction<Result>(work: () => Result): Result;
  close(): void;
}

/**
 * Opens or makes the database at `path` (":memory:" in tests of other things) and brings its schema up to date. Errors:
 * DISK_FULL.
 */
export function openDatabase(path: string): Database {
  const sqlite = new DatabaseSync(path, { enableForeignKeyConstraints: true });
  try {
    sqlite.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;');
    migrate(sqlite);
  } catch (error) {
    sqlite.close();
    throw storageError(error, 'open its database');
  }
  return wrap(sqlite);
}

/** Opens a database that another process may be writing, to read from it. */
export const openDatabaseToRead = (path: string): Database =>
  wrap(new DatabaseSync(path, { readOnly: true, timeout: 10_000 }));

function wrap(sqlite: DatabaseSync): Database {
  const statements = new Map<string, StatementSync>();
  let depth = 0;

  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (!statement) statements.set(sql, (statement = sqlite.prepare(sql)));
    return statement;
  };

  const outermost = <Result>(work: () => Result): Result => {
    sqlite.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      sqlite.exec('COMMIT');
      return result;
    } catch (error) {
      // A full disk makes SQLite itself roll back; a second ROLLBACK would hide the first error.
      if (sqlite.isTransaction) sqlite.exec('ROLLBACK');
      throw storageError(error, 'store this');
    }
  };

  return {
    prepare,
    transaction(work) {
      if (depth > 0) return work();
      depth += 1;
      try {
        return outermost(work);
      } finally {
        depth -= 1;
      }
    },
    close: () => sqlite.close(),
  };
}
