import { FlashcoreError } from '@flashcore/shared/contract';

// https://sqlite.org/rescode.html: SQLITE_FULL, and SQLITE_IOERR_SHMSIZE, which a full disk gives when the WAL index
// has to grow.
const SQLITE_FULL = 13;
const SQLITE_IOERR_SHMSIZE = 4874;

/** Gives DISK_FULL for an error that means so, and any other error as it is. `what` completes "The runner can't …". */
export function storageError(error: unknown, what: string): unknown {
  if (!isDiskFull(error)) return error;
  return new FlashcoreError(
    'DISK_FULL',
    {},
    `Free space on the disk of the runner's data directory and try again: the runner can't ${what}, no space is left`,
    { cause: error },
  );
}

function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as Error & { code?: unknown; errcode?: unknown };
  if (code === 'ENOSPC' || code === 'EDQUOT') return true;
  return (
    code === 'ERR_SQLITE_ERROR' &&
    typeof errcode === 'number' &&
    ((errcode & 0xff) === SQLITE_FULL || errcode === SQLITE_IOERR_SHMSIZE)
  );
}
