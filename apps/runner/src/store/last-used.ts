import { lstatSync, lutimesSync } from 'node:fs';

/** A finer resolution is not needed. */
const RESOLUTION_MS = 10 * 60 * 1000;

/** Records the use in a file's or folder's time: when space is needed, unused files are removed first. */
export function markUsed(path: string): void {
  const now = new Date();
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && now.getTime() - found.mtimeMs > RESOLUTION_MS) lutimesSync(path, now, now);
}
