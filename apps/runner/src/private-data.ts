import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isOwnData, makeFolder, whyUnwritable } from '@flashcore/shared/files';
import { UsageError } from './usage-error.ts';

const OTHERS = 0o077;

/**
 * Creates the data folder, or makes the runner's files in an existing folder private, because an older runner, a copy
 * or a restored backup may have left them open. The folder's own mode does not change. Later files are private because
 * of the process's umask. Throws UsageError if nothing can be written.
 */
export function makePrivate(dataDirectory: string): void {
  try {
    makeFolder(dataDirectory);
    for (const name of readdirSync(dataDirectory)) if (isOwnData(name)) closeToOthers(join(dataDirectory, name));
  } catch (error) {
    throw explained(error, dataDirectory);
  }
}

/** Makes a file or folder private. Others can't enter a private folder, so its contents need no check. */
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
