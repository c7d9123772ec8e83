import { readFileSync, rmSync } from 'node:fs';

/** Whether the program in the box ended by itself; otherwise the box did not start, or failed. Removes the file. */
export function endedInBox(status: string): boolean {
  try {
    return /"exit-code"/.test(readFileSync(status, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  } finally {
    rmSync(status, { force: true });
  }
}
