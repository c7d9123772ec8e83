import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const SQLITE_BUSY = 5;

/** Another runner has the data directory. */
export class DirectoryInUse extends Error {
  constructor(directory: string, pid: string) {
    super(`Stop the runner that uses ${directory} (process ${pid}) or give this one another --data directory: two can't share one`);
    this.name = 'DirectoryInUse';
  }
}

/**
 * Takes a data directory for this process alone and gives a function that lets go of it. The lock is SQLite's exclusive lock on a small database, so it
 * goes with the process, also by kill -9. Throws DirectoryInUse.
 */
export function lockDirectory(directory: string): () => void {
  const pidFile = join(directory, 'lock.pid');
  const lock = new DatabaseSync(join(directory, 'lock.db'), { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error;
    throw new DirectoryInUse(directory, readPid(pidFile));
  }
  writeFileSync(pidFile, String(process.pid), { mode: 0o600 });
  return () => lock.close();
}

function readPid(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim() || 'unknown';
  } catch {
    return 'unknown'; // The other one has taken the lock and not yet said who it is.
  }
}
