import { FlashcoreError } from '@flashcore/shared/contract';

// https://sqlite.org/rescode.html; the low byte is the class. A full disk gives SQLITE_IOERR_SHMSIZE when the WAL index
// has to grow.
const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CANTOPEN = 14;
const SQLITE_READONLY = 8;
const SQLITE_NOTADB = 26;
const SQLITE_IOERR_SHMSIZE = 4874;
/** When to try again after a full disk. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Converts storage errors to DISK_FULL or STORE_UNAVAILABLE, and returns other errors unchanged. `what` completes "The
 * runner can't …".
 */
export function storageError(error: unknown, what: string): unknown {
  switch (storageFault(error)) {
    case 'full':
      return new FlashcoreError(
        'DISK_FULL',
        {},
        `The runner can't ${what}, no space is left: free some on the disk of its data directory and try again`,
        { cause: error, retryAfterSeconds: RETRY_AFTER_SECONDS },
      );
    case 'busy':
      return new FlashcoreError(
        'STORE_UNAVAILABLE',
        {},
        `The runner can't ${what}, its database is locked: try again when the other process has let go of it`,
        { cause: error, retryAfterSeconds: RETRY_AFTER_SECONDS },
      );
    case 'broken':
      return new FlashcoreError(
        'STORE_UNAVAILABLE',
        {},
        `The runner can't ${what}, the disk takes no writes: look at the disk of its data directory and try again`,
        { cause: error, retryAfterSeconds: RETRY_AFTER_SECONDS },
      );
    case 'damaged':
      return new FlashcoreError(
        'DATA_DAMAGED',
        {},
        `The runner can't ${what}, the database's file is damaged: restore it from a backup (flashcore-runner restore)`,
        { cause: error },
      );
    case undefined:
      return error;
  }
}

/** Whether an error means that nothing can be stored now, but perhaps later. */
export const isStorageFailure = (error: unknown): error is FlashcoreError =>
  error instanceof FlashcoreError && (error.reason === 'DISK_FULL' || error.reason === 'STORE_UNAVAILABLE');

/** Whether another process locks the database: the disk is fine, and a retry may succeed at once. */
export const isBusy = (error: unknown): boolean => isStorageFailure(error) && storageFault(error.cause) === 'busy';

function storageFault(error: unknown): 'full' | 'busy' | 'broken' | 'damaged' | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, errcode } = error as Error & { code?: unknown; errcode?: unknown };
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'full';
  if (code === 'EIO' || code === 'EROFS') return 'broken';
  if (code !== 'ERR_SQLITE_ERROR' || typeof errcode !== 'number') return undefined;
  if (errcode === SQLITE_IOERR_SHMSIZE) return 'full';
  switch (errcode & 0xff) {
    case SQLITE_FULL:
      return 'full';
    case SQLITE_BUSY:
      return 'busy';
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return 'broken';
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return 'damaged';
    default:
      return undefined;
  }
}
