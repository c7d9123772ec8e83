import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { entryOf } from '../text/entry-of.ts';

/**
 * Makes a folder and those above it, by default for this user alone. Folder by folder, because mkdirSync's `recursive`
 * never returns where the system says ENOENT for a folder whose parent is there, as under /proc. Errors: the system's.
 */
export function makeFolder(path: string, mode = 0o700): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process was faster.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const WHY: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  ENOTDIR: 'a part of the path is not a folder',
  // As under /proc, and for a folder above that is not there.
  ENOENT: 'no folder can be made there',
};

/** Why a folder could not be made or written to, for a text of the caller's own; undefined: for another reason. */
export const whyUnwritable = (error: unknown): string | undefined =>
  entryOf(WHY, (error as NodeJS.ErrnoException | undefined)?.code ?? '');
