import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { FlashcoreError } from '@flashcore/shared/contract';
import { migrate } from './migrations.ts';
import { isStorageFailure, storageError } from './storage-error.ts';
import { WalSync } from './wal-sync.ts';

/**
 * The runner's SQLite database: one connection, synchronous. A commit survives the end of the process at once. It
 * survives a power cut once synced() has resolved, so callers await that before they report it (WAL, synchronous
 * NORMAL).
 */
export interface Database {
  /** Prepares a statement, or returns the cached one. */
  prepare(sql: string): StatementSync;
  /**
   * Runs `work` in one transaction; within another transaction, as part of it. Errors: DISK_FULL; any error of `work`,
   * after rolling back.
   */
  transaction<Result>(work: () => Result): Result;
  /** Commits a transaction that changes nothing, to test if writes work. Errors: as transaction(). */
  tryToWrite(): void;
  /** Resolves when everything committed is on the disk. Errors: DISK_FULL, STORE_UNAVAILABLE. */
  synced(): Promise<void>;
  close(): void;
}

/** How long opening waits for another process's lock. */
const OPEN_TIMEOUT_MS = 2_000;
/** How long a statement waits for a lock; short, because the daemon's only thread waits too. */
const BUSY_TIMEOUT_MS = 20;

/**
 * Opens or makes the database at `path` (":memory:" only in tests), checks its integrity, and updates its schema.
 * Errors: DISK_FULL, DATA_DAMAGED, STORE_UNAVAILABLE.
 */
export function openDatabase(path: string): Database {
  try {
    return open(path, 'shared');
  } catch (error) {
    // A full disk has no room for the index that processes share; without sharing, the index is in memory.
    if (!isStorageFailure(error) || path === ':memory:') throw error;
    return open(path, 'alone');
  }
}

function open(path: string, access: 'shared' | 'alone'): Database {
  const sqlite = new DatabaseSync(path, { enableForeignKeyConstraints: true, timeout: OPEN_TIMEOUT_MS });
  try {
    if (access === 'alone') sqlite.exec('PRAGMA locking_mode = EXCLUSIVE');
    sqlite.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;');
    requireWhole(sqlite);
    migrate(sqlite);
    sqlite.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  } catch (error) {
    sqlite.close();
    throw storageError(error, 'open its database');
  }
  return wrap(sqlite, path === ':memory:' ? undefined : `${path}-wal`);
}

/** Finds pages with structural damage; damage within an event is found when the event is read. */
function requireWhole(sqlite: DatabaseSync): void {
  const rows = sqlite.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[];
  const found = rows[0]?.quick_check ?? '';
  if (found === 'ok') return;
  throw new FlashcoreError(
    'DATA_DAMAGED',
    {},
    `The runner's database is damaged (${found}): restore it from a backup (flashcore-runner restore)`,
  );
}

/**
 * Refuses to start a new database next to files of an earlier one, because their meaning would be lost silently.
 * Errors: DATA_DAMAGED.
 */
export function refuseEmptyDatabase(dataDirectory: string): void {
  const size = statSync(join(dataDirectory, 'flashcore.db'), { throwIfNoEntry: false })?.size ?? 0;
  const artifacts = join(dataDirectory, 'artifacts');
  if (size > 0 || !existsSync(artifacts)) return;
  if (!readdirSync(artifacts).some((name) => /^[0-9a-f]{2}$/.test(name))) return;
  throw new FlashcoreError(
    'DATA_DAMAGED',
    {},
    `There are files of jobs, and the database that knows them is empty or gone: restore flashcore.db from a backup (flashcore-runner restore), or move ${artifacts} away`,
  );
}

/** Opens a database for reading, even while another process writes it. */
export const openDatabaseToRead = (path: string): Database =>
  wrap(new DatabaseSync(path, { readOnly: true, timeout: 10_000 }));

/** `wal`: path of the write-ahead log; undefined: nothing is written to a disk. */
function wrap(sqlite: DatabaseSync, wal?: string): Database {
  const statements = new Map<string, StatementSync>();
  const changes = sqlite.prepare('SELECT total_changes() AS changes');
  const sync =
    wal === undefined
      ? undefined
      : new WalSync({ path: wal, changes: () => (changes.get() as { changes: number }).changes });
  let depth = 0;

  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (!statement) statements.set(sql, (statement = sqlite.prepare(sql)));
    return statement;
  };

  const outermost = <Result>(work: () => Result): Result => {
    try {
      sqlite.exec('BEGIN IMMEDIATE');
      const result = work();
      sqlite.exec('COMMIT');
      return result;
    } catch (error) {
      // After an error such as a full disk SQLite has already rolled back; a second ROLLBACK would hide that error.
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
    tryToWrite: () =>
      outermost(() => {
        const { user_version: version } = sqlite.prepare('PRAGMA user_version').get() as { user_version: number };
        sqlite.exec(`PRAGMA user_version = ${version}`);
      }),
    synced: () => sync?.synced() ?? Promise.resolve(),
    close: () => {
      sync?.close();
      sqlite.close();
    },
  };
}
