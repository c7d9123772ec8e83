import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isOwnData, makeFolder, whyUnwritable } from '@flashcore/shared/files';
import { UsageError } from './usage-error.ts';

const OTHERS = 0o077;

/**
 * Makes the data folder, or takes from others what they may do with the runner's files in one that is there: an older
 * runner, a copy or a restored backup may have left them open. Whatever the folder's own mode, which stays. Files made
 * later are private by the process's umask. Throws UsageError where nothing can be written.
 */
export function makePrivate(dataDirectory: string): void {
  try {
    makeFolder(dataDirectory);
    for (const name of readdirSync(dataDirectory)) if (isOwnData(name)) closeToOthers(join(dataDirectory, name));
  } catch (error) {
    throw explained(error, dataDirectory);
  }
}

/** What lies in a folder that others can't enter needs no look. */
function closeToOthers(path: string): void {
  const found = lstatSync(path);
  if (found.isSymbolicLink() || (found.mode & OTHERS) === 0) return;
  chmodSync(path, found.mode & 0o700);
}

function explained(error: unknown, folder: string): unknown {
  const why = whyUnwritable(error);
  if (why === undefined) return error;
  return new UsageError(`${folder}: ${why}; give --data (or $FLASHCORE_HOME) a folder that this user can write to`, {
    cause: error,
  });
}
