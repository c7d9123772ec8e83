import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { killGroup } from '@flashcore/shared/files';
import type { BoxedCommand } from './child.ts';
import { runSync } from './run-sync.ts';

/** Limits for all processes of one box together. */
export interface GroupLimits {
  memoryBytes: number;
  processes: number;
  /** CPUs; undefined: all, with lower weight than the daemon. */
  cpus?: number;
}

/** A group for foreign code: its processes are counted, limited and ended together. */
export interface ProcessGroup extends Disposable {
  /** The cgroup's folder; undefined if there is none. */
  readonly path: string | undefined;
  /** Wraps a command so that it and all its children start in the group. */
  readonly enter: (command: BoxedCommand) => BoxedCommand;
}

/** Makes groups, if the host allows it. */
export interface ProcessGroups {
  /** Describes the groups, or says why there are none. */
  readonly detail: string;
  /** Whether there are limits on memory, processes and CPUs. */
  readonly limited: boolean;
  /** Makes the group of a name. Dispose of it before the group is made again. */
  make(name: string): ProcessGroup;
  close(): void;
}

const CONTROLLERS = ['memory', 'pids', 'cpu'] as const;
type Controller = (typeof CONTROLLERS)[number];

/** Three quarters of the memory of the host, or of the runner's container; as many processes as a box may have. */
export function defaultLimits(): GroupLimits {
  const constrained = process.constrainedMemory();
  const memory = constrained > 0 ? Math.min(totalmem(), constrained) : totalmem();
  return { memoryBytes: Math.floor((memory * 3) / 4), processes: 1024 };
}

/** oom_score_adj, up to 1000: the kernel kills the highest first when memory runs out; the daemon has 0. */
const FIRST_TO_DIE = 1000;
/**
 * Enters a cgroup before the program starts, so that no process is ever outside the cgroup, and makes the program the
 * first to be killed when memory runs out, which a root runner's candidates can't undo.
 */
const ENTER = `[ ! -w /proc/self/oom_score_adj ] || echo ${FIRST_TO_DIE} >/proc/self/oom_score_adj
[ -z "$0" ] || echo 0 >"$0/cgroup.procs" || exit 125
exec "$@"`;

const entering = (path: string | undefined, { program, args }: BoxedCommand): BoxedCommand =>
  process.platform === 'linux'
    ? { program: '/bin/sh', args: ['-c', ENTER, path ?? '', program, ...args] }
    : { program, args };

/** Groups for a host without cgroups: processes end with their box, or with their process group. */
export function noGroups(reason: string): ProcessGroups {
  return {
    detail: `no cgroup limits their memory, processes and processors: ${reason}`,
    limited: false,
    make: () => ({
      path: undefined,
      enter: (command) => entering(undefined, command),
      [Symbol.dispose]: () => undefined,
    }),
    close: () => undefined,
  };
}

export interface GroupsOptions {
  limits: GroupLimits;
  /** The runner's data folder. It exists, and only one runner at a time has its lock; groups are named after it. */
  dataDirectory: string;
  /** Default: the system's description of this process. */
  self?: SelfFiles;
  processId?: number;
}

/** Linux's description of a process: /proc/self/cgroup and /proc/self/mountinfo. */
export interface SelfFiles {
  cgroup: string;
  mountinfo: string;
}

/**
 * The groups that this host lets the runner make: below its own cgroup (version 2), which systemd delegates with
 * Delegate=, as does a container with a writable cgroup namespace. Everything is tried before the groups are used: each
 * controller is requested, and a process is put into a group with all limits.
 */
export function findGroups(options: GroupsOptions): ProcessGroups {
  if (process.platform !== 'linux') return noGroups('cgroups are for Linux only');
  const own = ownCgroup(options.self ?? readSelf());
  if ('problem' in own) return noGroups(own.problem);
  try {
    return new Cgroups(own.folder, options);
  } catch (error) {
    return noGroups(`${own.folder} can't be used (${(error as Error).message}): a systemd unit has Delegate= for it`);
  }
}

const readSelf = (): SelfFiles => ({
  cgroup: readFileSync('/proc/self/cgroup', 'utf8'),
  mountinfo: readFileSync('/proc/self/mountinfo', 'utf8'),
});

/** The folder of the process's cgroup (version 2). */
export function ownCgroup({ cgroup, mountinfo }: SelfFiles): { folder: string } | { problem: string } {
  const path = /^0::(\/.*)$/m.exec(cgroup)?.[1];
  if (path === undefined) return { problem: 'this system has no cgroups of version 2' };
  if (path.includes('/..')) return { problem: "this process's cgroup lies outside of what this container sees" };
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    if (!after.startsWith('cgroup2 ')) continue;
    const [, , , root = '/', point = ''] = before.split(' ');
    if (root === '/') return { folder: resolve(join(point, path)) };
    if (path === root || path.startsWith(`${root}/`)) return { folder: resolve(join(point, path.slice(root.length))) };
  }
  return { problem: 'no cgroup file system of version 2 is mounted here' };
}

/**
 * Derived from the folder's identity, not its path: containers and chroots that share cgroups may have different
 * folders at the same path, and a starting runner kills the processes in groups of its name.
 */
export function groupName(dataDirectory: string): string {
  const { dev, ino } = statSync(dataDirectory, { bigint: true });
  return `flashcore-${createHash('sha256').update(`${dev}:${ino}`).digest('hex').slice(0, 12)}`;
}

class Cgroups implements ProcessGroups {
  readonly detail: string;
  readonly limited: boolean;
  readonly #folder: string;
  readonly #limits: GroupLimits;
  readonly #enabled: ReadonlySet<Controller>;

  /** Errors: the system's, if no group can be made or entered. */
  constructor(own: string, { limits, dataDirectory, processId = process.pid }: GroupsOptions) {
    this.#limits = limits;
    const name = groupName(dataDirectory);
    this.#folder = join(own, name);
    mkdirSync(this.#folder, { recursive: true });
    // Ends groups that a killed runner left.
    for (const group of subfolders(this.#folder)) endGroup(join(this.#folder, group));
    const { enabled, missing } = enableControllers(own, { folder: this.#folder, daemon: `${name}.daemon`, processId });
    this.#enabled = enabled;
    this.limited = missing.length === 0;
    this.#limitTogether();
    this.#tryOut();
    this.detail = this.#describe(missing);
  }

  make(name: string): ProcessGroup {
    const path = join(this.#folder, name);
    mkdirSync(path, { recursive: true });
    this.#limit(path);
    return {
      path,
      enter: (command) => entering(path, command),
      [Symbol.dispose]: () => endGroup(path),
    };
  }

  close(): void {
    for (let tries = 0; tries < CLOSE_TRIES && !endGroup(this.#folder); ++tries)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, CLOSE_WAIT_MS);
  }

  /**
   * Limits all boxes together, which leaves a share for the daemon. If they reach the limit, the kernel kills only the
   * largest box, because the group of all boxes is not killed as a whole. The number of processes is not limited here,
   * so that one box can't use up another's.
   */
  #limitTogether(): void {
    const { memoryBytes } = this.#limits;
    if (this.#enabled.has('memory'))
      this.#limitMemory(this.#folder, Math.max(memoryBytes, defaultLimits().memoryBytes));
    if (this.#enabled.has('cpu')) this.#write(this.#folder, 'cpu.weight', WEIGHT);
  }

  #limit(folder: string): void {
    const { memoryBytes, processes, cpus } = this.#limits;
    const write = (file: string, value: string | number): void => this.#write(folder, file, value);
    if (this.#enabled.has('memory')) {
      this.#limitMemory(folder, memoryBytes);
      // Kill the whole box, not only the process that allocated last.
      write('memory.oom.group', 1);
    }
    if (this.#enabled.has('pids')) write('pids.max', processes);
    if (this.#enabled.has('cpu'))
      write('cpu.max', cpus === undefined ? 'max' : `${Math.round(cpus * PERIOD_US)} ${PERIOD_US}`);
  }

  #limitMemory(folder: string, bytes: number): void {
    this.#write(folder, 'memory.max', bytes);
    // The file is missing on a kernel without swap.
    if (existsSync(join(folder, 'memory.swap.max'))) this.#write(folder, 'memory.swap.max', 0);
  }

  #write(folder: string, file: string, value: string | number): void {
    writeFileSync(join(folder, file), String(value));
  }

  /** Errors: a process can't be put into a group. */
  #tryOut(): void {
    using group = this.make('try');
    const { program, args } = group.enter({ program: '/bin/true', args: [] });
    const { exitCode, stderr } = runSync(program, args, { limitMs: 5_000 });
    if (exitCode !== 0) throw new Error(`no process can be put into a group: ${stderr.trim()}`);
  }

  #describe(missing: readonly string[]): string {
    const { memoryBytes, processes, cpus } = this.#limits;
    const limits = [
      ...(this.#enabled.has('memory') ? [`${(memoryBytes / 1024 ** 3).toFixed(1)} GiB of memory`] : []),
      ...(this.#enabled.has('pids') ? [`${processes} processes`] : []),
      ...(this.#enabled.has('cpu') ? [`${cpus ?? availableParallelism()} processors`] : []),
    ];
    const most = limits.length > 0 ? `, with at most ${limits.join(', ')}` : '';
    const without = missing.length > 0 ? `; all processes of one together have no limit on ${missing.join('; ')}` : '';
    return `each has a cgroup of its own, all of whose processes end with it${most}${without}`;
  }
}

/** Killed processes take some milliseconds to disappear. */
const CLOSE_TRIES = 20;
const CLOSE_WAIT_MS = 10;
const PERIOD_US = 100_000;
/** The daemon's weight is 100, so it answers while every CPU compiles. */
const WEIGHT = 25;
const LIMITS_OF: Record<Controller, string> = { memory: 'memory', pids: 'processes', cpu: 'processors' };

interface Delegated {
  /** The folder below which groups are made. */
  folder: string;
  /** Name of the daemon's own group: a cgroup that delegates controllers can have no processes itself. */
  daemon: string;
  processId: number;
}

/** Delegates the available controllers to the groups; returns those that failed, and why. */
function enableControllers(
  own: string,
  { folder, daemon, processId }: Delegated,
): { enabled: Set<Controller>; missing: string[] } {
  const available = readFileSync(join(own, 'cgroup.controllers'), 'utf8').trim().split(/\s+/);
  const wanted = CONTROLLERS.filter((controller) => available.includes(controller));
  const absent = CONTROLLERS.filter((controller) => !available.includes(controller));
  const missing = absent.length > 0 ? [`${names(absent)} (the cgroup ${own} has no ${absent.join(', ')})`] : [];
  if (wanted.length === 0) return { enabled: new Set(), missing };
  const place = join(own, daemon);
  // Only the system's root cgroup can have both processes and delegated controllers.
  const moves = existsSync(join(own, 'cgroup.type'));
  if (moves) {
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'cgroup.procs'), String(processId));
  }
  const enabled = new Set<Controller>();
  for (const controller of wanted) {
    try {
      for (const level of [own, folder]) writeFileSync(join(level, 'cgroup.subtree_control'), `+${controller}`);
      enabled.add(controller);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const why = code === 'EBUSY' ? 'other processes are in' : `${code} at`;
      missing.push(`${LIMITS_OF[controller]} (${why} ${own})`);
    }
  }
  if (moves && enabled.size === 0) {
    writeFileSync(join(own, 'cgroup.procs'), String(processId));
    removeGroup(place);
  }
  return { enabled, missing };
}

const names = (controllers: readonly Controller[]): string =>
  controllers.map((controller) => LIMITS_OF[controller]).join(', ');

const subfolders = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);

/**
 * Kills the processes of a group and removes it, with its subgroups. A group whose processes have not ended yet stays
 * as an empty folder; returns false for it.
 */
function endGroup(path: string): boolean {
  killGroup(path);
  for (const below of existsSync(path) ? subfolders(path) : []) endGroup(join(path, below));
  return removeGroup(path);
}

function removeGroup(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!['EBUSY', 'ENOTEMPTY', 'ENOENT'].includes(code ?? '')) throw error;
    return code === 'ENOENT';
  }
}
