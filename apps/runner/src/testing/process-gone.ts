import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Whether a process ends within two seconds (Linux). A zombie has ended: its memory, files and devices are free, only
 * nobody has asked how it ended.
 */
export async function processGone(pid: number): Promise<boolean> {
  const until = performance.now() + 2_000;
  while (runs(pid) && performance.now() < until) await sleep(10);
  return !runs(pid);
}

/** Whether it is there and no zombie. */
export function runs(pid: number): boolean {
  try {
    return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}
