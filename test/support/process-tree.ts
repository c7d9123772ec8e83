/** The descendants of a process, read from Linux's /proc. */
import { readFileSync, readdirSync } from 'node:fs';

export interface ProcessInfo {
  pid: number;
  parent: number;
  /**
   * When the process started, in ticks since the machine started. Pid and start identify a process even if the pid is
   * reused.
   */
  startTicks: string;
  /** User and system time, in ticks of 10 ms. */
  cpuTicks: number;
  command: string;
}

/** All running descendants of a process, without zombies. */
export function descendants(root: number): ProcessInfo[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((one) => one !== undefined);
  const found: ProcessInfo[] = [];
  for (let parents = new Set([root]); parents.size > 0;) {
    const children = all.filter(({ parent }) => parents.has(parent));
    found.push(...children);
    parents = new Set(children.map(({ pid }) => pid));
  }
  return found;
}

/** True if this process is still running, rather than another one with the same pid. */
export const stillRuns = ({ pid, startTicks }: ProcessInfo): boolean => readProcess(pid)?.startTicks === startTicks;

/** Reads a process. Undefined if it has ended or is a zombie. */
export function readProcess(pid: number): ProcessInfo | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return {
      pid,
      parent: Number(fields[1]),
      startTicks: fields[19]!,
      cpuTicks: Number(fields[11]) + Number(fields[12]),
      command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim(),
    };
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
