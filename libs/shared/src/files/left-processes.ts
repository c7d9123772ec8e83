import { readdirSync, readFileSync } from 'node:fs';

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
