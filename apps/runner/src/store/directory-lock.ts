import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, writeFileSync, statfsSync } from 'node:fs';
import { join, dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isStorageFailure, storageError } from './storage-error.ts';

const SQLITE_BUSY = 5;

/** Another runner uses the data directory. */
export class DirectoryInUse extends Error {
  /** `embedded`: a client started the other runner for itself. */
  constructor(directory: string, pid: string, { embedded = false } = {}) {
    const remedy = embedded
      ? `Wait until fa-tui's own runner of ${directory} ends, which it does by itself soon after its last use, or end it (kill ${pid})`
      : `A runner serves ${directory} already (process ${pid}): use that one, or stop it`;
    super(`${remedy}, or give this one another --data directory: two can't share one`);
    this.name = 'DirectoryInUse';
  }
}

/**
 * Locks a data directory for this process and returns a function that releases it. The lock is SQLite's exclusive lock
 * on a small database, so it ends with the process, even by kill -9; on Linux it also holds if its file is removed or
 * moved. Throws DirectoryInUse.
 */
export function lockDirectory(directory: string): () => void {
  const pidFile = join(directory, 'lock.pid');
  // Must run before this process has an exclusive lock of its own, which could be mistaken for another process's lock.
  const moved = holderOfMovedLock(directory);
  const lock = new DatabaseSync(join(directory, 'lock.db'), { timeout: 0 });
  try {
    // Never committed: with its journal in memory the transaction needs no disk space, and the disk may be full.
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw storageError(error, 'lock its data directory');
    throw new DirectoryInUse(directory, readPid(pidFile), { embedded: isEmbedded(directory) });
  }
  const former = holderOfRemovedLock(directory) ?? moved;
  if (former !== undefined) {
    lock.close();
    throw new DirectoryInUse(directory, former, { embedded: isEmbedded(directory) });
  }
  try {
    writeFileSync(pidFile, String(process.pid), { mode: 0o600 });
  } catch (error) {
    // On a full disk the lock still holds; a second runner just can't say which process has it.
    if (!isStorageFailure(storageError(error, 'name itself'))) throw error;
  }
  return () => lock.close();
}

/**
 * The process that still locks a removed lock.db of this directory; a lock on the new file does not conflict with it.
 * Undefined if no process of this user does, or the system is not Linux.
 */
function holderOfRemovedLock(directory: string): string | undefined {
  if (!existsSync('/proc/self/fd')) return undefined;
  const removed = `${join(realpathSync(directory), 'lock.db')} (deleted)`;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .find((pid) => openFiles(pid).includes(removed));
}

/** SQLite's exclusive lock, in /proc/locks: its bytes are fixed (PENDING_BYTE to the end of SHARED). */
const EXCLUSIVE = / WRITE (\d+) \S+ 1073741824 1073742335$/gm;

/**
 * The process that serves this directory under a lock.db that was moved away: it has the directory's database open and
 * SQLite's exclusive lock on some file. Undefined if no process of this user does, or the system is not Linux.
 */
function holderOfMovedLock(directory: string): string | undefined {
  if (!existsSync('/proc/locks')) return undefined;
  const database = join(realpathSync(directory), 'flashcore.db');
  const holders = [...readFileSync('/proc/locks', 'utf8').matchAll(EXCLUSIVE)].map(([, pid]) => pid!);
  return holders.find((pid) => openFiles(pid).includes(database));
}

/** Open files of a process; empty if it belongs to another user or ends meanwhile. */
function openFiles(pid: string): string[] {
  const folder = `/proc/${pid}/fd`;
  const unlessGone = <Result>(read: () => Result, otherwise: Result): Result => {
    try {
      return read();
    } catch (error) {
      if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? ''))
        return otherwise;
      throw error;
    }
  };
  return unlessGone(() => readdirSync(folder), []).map((name) =>
    unlessGone(() => readlinkSync(join(folder, name)), ''),
  );
}

/** Reads runner.json, in which the runner describes itself to clients. It is missing until the runner serves. */
function isEmbedded(directory: string): boolean {
  const file = join(directory, 'runner.json');
  return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { embedded?: boolean }).embedded === true;
}

function readPid(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim() || 'unknown';
  } catch {
    return 'unknown'; // The other runner has the lock but has not written its id yet.
  }
}

/** Numbers of file systems shared by several machines: statfs(2), linux/magic.h and their own sources. */
const NETWORK_DISKS: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'SMB',
  0xfe534d42: 'SMB',
  0x0bd00bd0: 'Lustre',
  0x47504653: 'GPFS',
  0x19830326: 'BeeGFS',
  0x00c36400: 'Ceph',
  0x5346414f: 'AFS',
  0x20030528: 'OrangeFS',
  0xaad7aaea: 'PanFS',
  0x01161970: 'GFS2',
  0x7461636f: 'OCFS2',
};

/**
 * The network file system that a folder is on, or will be; undefined for a local disk. SQLite's WAL needs memory shared
 * by all its processes, and reliable locks (https://sqlite.org/wal.html, section 2).
 */
export function networkDisk(folder: string, typeOf = (path: string) => statfsSync(path).type): string | undefined {
  let path = resolve(folder);
  while (!existsSync(path) && path !== dirname(path)) path = dirname(path);
  return NETWORK_DISKS[typeOf(path) >>> 0];
}
