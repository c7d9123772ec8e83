import { chmodSync, lstatSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type CleanText, UsageError } from '@flashcore/shared/contract';
import { isOwnData, makeFolder, whyUnwritable } from '@flashcore/shared/files';
import { plainText } from '@flashcore/shared/text';

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

const SHOWN = '<data folder>';

/**
 * Like plainText(), and also removes a folder's path, both as given and as the real path. Messages of tools and of the
 * system name files, and only the runner's user may know where its files are.
 */
export function hidingFolder(folder: string): CleanText {
  const names = [...new Set([folder, realpathSync(folder)])].toSorted((a, b) => b.length - a.length);
  const found = new RegExp(
    `(?<![\\w./-])(?:${names.map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`)).join('|')})(?![\\w-])`,
    'g',
  );
  return (text) => {
    const plain = plainText(text);
    return names.some((name) => plain.includes(name)) ? plain.replace(found, SHOWN) : plain;
  };
}
