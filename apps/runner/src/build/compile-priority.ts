import { readdirSync, readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';

/** The lowest priority: the process gets only the processor time that other processes leave. */
const LOWEST = constants.priority.PRIORITY_LOW;

/** Time that a compilation whose priority may not be raised has to end before it is started again. */
const GRACE_MS = 2_000;
/** Priorities are set again after this time, because a starting `nice` may have lowered one in the meantime. */
const AGAIN_MS = 500;

export interface PriorityOptions {
  /** The lowest priority instead of the runner's own. */
  isLow: boolean;
  /** Gives a process group the runner's priority; returns whether that is allowed. */
  raiseGroup?: (group: number) => boolean;
  graceMs?: number;
}

/** The priority of a compilation's processes. A background compilation is raised once somebody waits for it. */
export class CompilePriority implements Disposable {
  readonly #raiseGroup: (group: number) => boolean;
  readonly #graceMs: number;
  readonly #groups = new Set<number>();
  readonly #restart = new AbortController();
  #isLow: boolean;
  #timer: NodeJS.Timeout | undefined;

  constructor({ isLow, raiseGroup = raisedGroup, graceMs = GRACE_MS }: PriorityOptions) {
    this.#isLow = isLow;
    this.#raiseGroup = raiseGroup;
    this.#graceMs = graceMs;
  }

  get isLow(): boolean {
    return this.#isLow;
  }

  /** Aborted if the compilation must be started again, because the priority of its processes may not be raised. */
  get restart(): AbortSignal {
    return this.#restart.signal;
  }

  /** A program and its arguments, at this priority. */
  command(program: string, args: readonly string[]): [string, readonly string[]] {
    return this.#isLow ? ['nice', ['-n', String(LOWEST), program, ...args]] : [program, args];
  }

  /** Adds a program's process group until the returned function is called. */
  follow(group: number): () => void {
    this.#groups.add(group);
    return () => void this.#groups.delete(group);
  }

  /** Gives the compilation the runner's own priority from now on. */
  raise(): void {
    if (!this.#isLow) return;
    this.#isLow = false;
    if (this.#raiseAll()) {
      this.#timer = setInterval(() => this.#raiseAll(), AGAIN_MS).unref();
      return;
    }
    this.#timer = setTimeout(
      () => this.#restart.abort(new DOMException('The compilation starts again at normal priority', 'AbortError')),
      this.#graceMs,
    ).unref();
  }

  #raiseAll(): boolean {
    return [...this.#groups].every((group) => this.#raiseGroup(group));
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/** Gives all threads of a process group the runner's priority; returns whether that is allowed. */
function raisedGroup(group: number): boolean {
  // Only /proc lists the threads of a group.
  if (process.platform !== 'linux') return false;
  const priority = getPriority();
  // A process that starts another one while the group is read passes its old priority on.
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (const thread of threadsOf(group)) {
      const raised = raisedThread(thread, priority);
      if (raised === 'refused') return false;
      hasChanged ||= raised === 'raised';
    }
  }
  return true;
}

function raisedThread(thread: number, priority: number): 'raised' | 'as it was' | 'refused' {
  try {
    if (getPriority(thread) <= priority) return 'as it was';
    setPriority(thread, priority);
    return 'raised';
  } catch (error) {
    const { code } = (error as { info?: { code: string } }).info ?? {};
    if (code === 'ESRCH') return 'as it was';
    if (code === 'EACCES' || code === 'EPERM') return 'refused';
    throw error;
  }
}

/** The threads of a process group. The box's processes are in their group too, because bwrap starts no new session. */
function threadsOf(group: number): number[] {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && groupOf(name) === group);
  return processes.flatMap((name) => unlessGone(() => readdirSync(`/proc/${name}/task`).map(Number)) ?? []);
}

function groupOf(process: string): number | undefined {
  const stat = unlessGone(() => readFileSync(`/proc/${process}/stat`, 'utf8'));
  // The program's name is in parentheses and may contain any character.
  return stat === undefined ? undefined : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]);
}

/** The result of reading /proc; undefined if the process has ended. */
function unlessGone<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
