/** Who descends from a process, by /proc (Linux). */
import { readFileSync, readdirSync } from 'node:fs';

export interface ProcessInfo {
  pid: number;
  parent: number;
  /** Ticks since the machine started: with the pid it names one process for ever. */
  startTicks: string;
  /** User and system time, ticks of 10 ms. */
  cpuTicks: number;
  command: string;
}

/** All running descendants of a process, zombies left out. */
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

/** Whether exactly this process still runs. */
export const stillRuns = ({ pid, startTicks }: ProcessInfo): boolean => readProcess(pid)?.startTicks === startTicks;

/** Undefined when it has gone, or is a zombie that only waits to be collected. */
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
