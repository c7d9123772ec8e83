import { existsSync, readFileSync } from 'node:fs';
import { waitFor } from '@flashcore/shared/testing';

/**
 * Whether a process ends within two seconds (Linux). A zombie counts as ended: its memory, files and devices are free,
 * and only its exit status has not been read.
 */
export async function processGone(pid: number): Promise<boolean> {
  return await waitFor(`process ${pid} to end`, () => !runs(pid) || undefined, 2_000).catch(() => !runs(pid));
}

/** Whether the process exists and is not a zombie. */
export function runs(pid: number): boolean {
  try {
    return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}
