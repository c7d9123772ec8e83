import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROUNDS = 5;

/**
 * Kills what a process without a box has left behind: every process with this variable in its environment, which those
 * inherit that left its group and its session too. One that empties its own environment is not found.
 */
export function killMarked(variable: string): void {
  for (let round = 0; round < ROUNDS; ++round) {
    const found = marked(variable);
    if (found.length === 0) return;
    for (const id of found) kill(id);
  }
}

/**
 * Kills all processes of a cgroup of version 2, and of the groups below it, whatever they did to leave their session:
 * at once, or, where the kernel is older than 5.14, one by one until none is left.
 */
export function killGroup(path: string): void {
  if (writesTo(join(path, 'cgroup.kill'), '1')) return;
  for (let round = 0; round < ROUNDS; ++round) {
    const left = processesOf(path);
    if (left.length === 0) return;
    for (const id of left) kill(id);
  }
}

/** False where there is no such file. */
function writesTo(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'r+' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

function processesOf(group: string): number[] {
  try {
    // 0: one of another process namespace, which has no number here; to kill that would end this process's own group.
    return readFileSync(join(group, 'cgroup.procs'), 'utf8')
      .split('\n')
      .map(Number)
      .filter((id) => id > 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function marked(variable: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && environmentOf(name).split('\0').includes(variable))
    .map(Number);
}

function environmentOf(id: string): string {
  try {
    return readFileSync(`/proc/${id}/environ`, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Somebody else's, or gone.
    if (code === 'EACCES' || code === 'EPERM' || code === 'ENOENT' || code === 'ESRCH') return '';
    throw error;
  }
}

function kill(id: number): void {
  try {
    process.kill(id, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
