import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { entryOf } from '../text/entry-of.ts';

/**
 * Creates a folder and its parents, by default for this user only. It creates them one by one, because mkdirSync's
 * `recursive` never returns if the system reports ENOENT although the parent exists, as under /proc. Errors: the
 * system's.
 */
export function makeFolder(path: string, mode = 0o700): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process created it first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const WHY: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  ENOTDIR: 'a part of the path is not a folder',
  // Under /proc, or if a parent folder is missing.
  ENOENT: 'no folder can be made there',
};

/** Why a folder could not be created or written to, for the caller's text; undefined if the reason is another. */
export const whyUnwritable = (error: unknown): string | undefined =>
  entryOf(WHY, (error as NodeJS.ErrnoException | undefined)?.code ?? '');
