import { lstatSync, lutimesSync } from 'node:fs';

/** Finer than this nobody asks. */
const RESOLUTION_MS = 10 * 60 * 1000;

/** Notes in a file's or folder's time that it was used: what nobody uses goes first when space is wanted. */
export function markUsed(path: string): void {
  const now = new Date();
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && now.getTime() - found.mtimeMs > RESOLUTION_MS) lutimesSync(path, now, now);
}
