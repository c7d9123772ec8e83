/**
 * Ends processes that tests leave behind. Each test file has a mark in its environment, and every process that it
 * starts inherits the mark. The mark is needed because a test cannot end its runner after vitest's timeout, and a
 * runner that serves on demand has left the test's process group. Works only on Linux; on other systems no process is
 * found.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';

export const RUN = 'FLASHCORE_TEST_RUN';
export const FILE = 'FLASHCORE_TEST_FILE';

interface Leftover {
  readonly pid: number;
  readonly command: string;
}

/**
 * Kills the processes that were started with this mark, or with a mark that begins with it. Returns the killed
 * processes.
 */
export function endLeftovers(mark: string): Leftover[] {
  const left = leftovers(mark);
  for (const { pid } of left) kill(pid);
  return left;
}

function leftovers(mark: string): Leftover[] {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      const marked = read(name, 'environ').some((entry) => entry.startsWith(`${FILE}=${mark}`));
      return marked ? [{ pid: Number(name), command: read(name, 'cmdline').join(' ').trim() }] : [];
    });
}

/** Reads a list of texts from /proc. Empty if the process has ended or belongs to another user. */
function read(pid: string, file: 'environ' | 'cmdline'): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0');
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/**
 * vitest's globalSetup. At the end of the run, ends the processes that test files could not end because vitest's worker
 * crashed.
 */
export default function setup(): () => void {
  const run = (process.env[RUN] = randomUUID());
  return () => void endLeftovers(run);
}
