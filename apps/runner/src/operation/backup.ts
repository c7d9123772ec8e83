import { closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { UsageError } from '@flashcore/shared/contract';
import { lockDirectory } from '../store/directory-lock.ts';
import { requireKnownSchema } from '../store/migrations.ts';

/** A backup that passed the check. */
export interface Backup {
  jobs: number;
  schemaVersion: number;
}

/**
 * Copies the database of a data directory as it is at this moment, even while its runner works: SQLite's VACUUM INTO
 * reads one snapshot and blocks no writer. The copy is checked before it gets its final name. Throws UsageError.
 */
export function backUp(dataDirectory: string, file: string): Backup {
  const source = join(dataDirectory, 'flashcore.db');
  if (!existsSync(source))
    throw new UsageError(`${dataDirectory} has no flashcore.db: give --data the data folder of a runner`);
  if (existsSync(file)) throw new UsageError(`${file} exists: give a file that is not there yet`);
  const folder = dirname(resolve(file));
  if (!existsSync(folder)) throw new UsageError(`${folder} is not a folder: give a file in one that exists`);
  const temporary = `${resolve(file)}.new`;
  // Private from its first byte; SQLite accepts an empty file.
  writeFileSync(temporary, '', { mode: 0o600 });
  const database = new DatabaseSync(source, { readOnly: true, timeout: 10_000 });
  try {
    database.prepare('VACUUM INTO ?').run(temporary);
    const backup = check(temporary);
    sync(temporary);
    renameSync(temporary, file);
    return backup;
  } finally {
    database.close();
    rmSync(temporary, { force: true });
  }
}

/**
 * Replaces a stopped runner's database with a backup. The old database is kept next to it, under the returned name.
 * Throws UsageError, DirectoryInUse, UnknownSchema.
 */
export function restore(dataDirectory: string, file: string): Backup & { before: string | undefined } {
  const backup = check(file);
  requireKnownSchema(backup.schemaVersion);
  const unlock = lockDirectory(dataDirectory);
  try {
    const place = join(dataDirectory, 'flashcore.db');
    const temporary = `${place}.restored`;
    copyFileSync(file, temporary);
    sync(temporary);
    const before = existsSync(place) ? `${place}.before-${new Date().toISOString().replaceAll(':', '')}` : undefined;
    // The write-ahead log belongs to the old database, so it moves with it.
    for (const suffix of ['', '-wal', '-shm'])
      if (before !== undefined && existsSync(place + suffix)) renameSync(place + suffix, before + suffix);
    renameSync(temporary, place);
    return { ...backup, before };
  } finally {
    unlock();
  }
}

/** Opens a copy and lets SQLite check all of it. Throws UsageError. */
function check(file: string): Backup {
  if (!existsSync(file))
    throw new UsageError(`${file} is not there: name a backup that "flashcore-runner backup" made`);
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const { integrity_check: found } = database.prepare('PRAGMA integrity_check').get() as { integrity_check: string };
    if (found !== 'ok') throw new UsageError(`${file} is damaged (${found}): use another backup`);
    const { user_version: schemaVersion } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    const { jobs } = database.prepare('SELECT COUNT(*) AS jobs FROM jobs').get() as { jobs: number };
    return { jobs, schemaVersion };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `${file} is not a backup (${(error as Error).message}): name one that "flashcore-runner backup" made`,
    );
  } finally {
    database.close();
  }
}

function sync(file: string): void {
  const descriptor = openSync(file, 'r+');
  fsyncSync(descriptor);
  closeSync(descriptor);
}
