import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROUNDS = 5;

/**
 * Kills the processes that a process outside the sandbox has left behind: every process with this variable in its
 * environment. Processes inherit the variable even if they leave their group and session. A process that empties its
 * environment is not found.
 */
export function killMarked(variable: string): void {
  for (let round = 0; round < ROUNDS; ++round) {
    const found = marked(variable);
    if (found.length === 0) return;
    for (const id of found) killIfThere(id);
  }
}

/**
 * Kills all processes of a cgroup (version 2) and of the groups below it, including those that left their session. On
 * Linux before 5.14 the processes are killed one by one until none is left.
 */
export function killGroup(path: string): void {
  if (writesTo(join(path, 'cgroup.kill'), '1')) return;
  for (let round = 0; round < ROUNDS; ++round) {
    const left = processesOf(path);
    if (left.length === 0) return;
    for (const id of left) killIfThere(id);
  }
}

/** Returns false if the file does not exist. */
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
    // cgroup.procs lists a process of another namespace as 0. Killing 0 would end this process's own group.
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
    // The process belongs to somebody else, or is gone.
    if (code === 'EACCES' || code === 'EPERM' || code === 'ENOENT' || code === 'ESRCH') return '';
    throw error;
  }
}

/** Kills a process, or with a negative id a group, unless it is gone or belongs to another user. */
export function killIfThere(id: number): void {
  try {
    process.kill(id, 'SIGKILL');
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/** Whether any process has this id, whoever owns it. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM means that it runs as another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Kills a process and everything it started in its group. Does nothing if it never started. */
export function killProcessGroup(pid: number | undefined): void {
  if (pid !== undefined) killIfThere(-pid);
}
