/** What this machine knows of a host that its hooks start and stop: since when it costs, and who watches it. */
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder, stateFolder, isRunning } from '@flashcore/shared/files';
import * as z from 'zod';

const RECORD = z.object({
  /** Milliseconds since 1970; absent: it was not started here. */
  startedAt: z.number().optional(),
  usdPerHour: z.number().optional(),
  /** Why it could not be stopped: it goes on costing. */
  problem: z.string().max(2_000).optional(),
});
export type InstanceRecord = z.output<typeof RECORD>;

const HOUR_MS = 3_600_000;

/** The state of one runner's host, in files of the user's state folder. */
export class Instance {
  readonly #stem: string;

  /** `runner`: as the hooks name it. */
  constructor(runner: string, environment: NodeJS.ProcessEnv) {
    const digest = createHash('sha256').update(runner).digest('hex').slice(0, 16);
    this.#stem = path.join(stateFolder(environment), 'hosts', digest);
  }

  /** What the idle watcher writes. */
  get logFile(): string {
    return `${this.#stem}.log`;
  }

  /** Nothing where there is no record, or one that can't be read any more. */
  read(): InstanceRecord {
    try {
      return RECORD.parse(JSON.parse(readFileSync(`${this.#stem}.json`, 'utf8')));
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof z.ZodError || isMissing(error)) return {};
      throw error;
    }
  }

  write(record: InstanceRecord): void {
    this.#makeFolder();
    writeFileSync(`${this.#stem}.json.new`, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    renameSync(`${this.#stem}.json.new`, `${this.#stem}.json`);
  }

  /** It does not run any more: nothing of it costs. */
  forget(): void {
    rmSync(`${this.#stem}.json`, { force: true });
  }

  /** Somebody on this machine uses it now. */
  touch(now = new Date()): void {
    this.#makeFolder();
    writeFileSync(`${this.#stem}.used`, '', { mode: 0o600, flag: 'a' });
    utimesSync(`${this.#stem}.used`, now, now);
  }

  /** When somebody on this machine used it last; 0: never. */
  lastUsed(): number {
    return statSync(`${this.#stem}.used`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  }

  /** Makes this process the one that watches for idleness; false: another one does. */
  takeWatch(pid = process.pid): boolean {
    this.#makeFolder();
    if (this.isWatched()) return false;
    this.endWatch();
    try {
      writeFileSync(this.#watchFile, watcher(pid), { mode: 0o600, flag: 'wx' });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  }

  /** Whether this process still is the one that watches. */
  ownsWatch(pid = process.pid): boolean {
    return this.#readWatch() === watcher(pid);
  }

  leaveWatch(): void {
    if (this.ownsWatch()) this.endWatch();
  }

  /** Whoever watches has nothing to watch any more, and ends when it sees that. */
  endWatch(): void {
    rmSync(this.#watchFile, { force: true });
  }

  isWatched(): boolean {
    const text = this.#readWatch();
    const pid = Number.parseInt(text, 10);
    return pid > 1 && text === watcher(pid) && isRunning(pid);
  }

  get #watchFile(): string {
    return `${this.#stem}.watch`;
  }

  /** Empty: nobody watches. */
  #readWatch(): string {
    try {
      return readFileSync(this.#watchFile, 'utf8');
    } catch (error) {
      if (isMissing(error)) return '';
      throw error;
    }
  }

  #makeFolder(): void {
    makeFolder(path.dirname(this.#stem));
  }
}

/** Dollars since it was started, where start and rate are known. */
export const costSoFar = ({ startedAt, usdPerHour }: InstanceRecord, now: number): number | undefined =>
  startedAt === undefined || usdPerHour === undefined
    ? undefined
    : (Math.max(0, now - startedAt) / HOUR_MS) * usdPerHour;

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** A process, and the boot in which it has this number; without the latter where the system has no name for it. */
function watcher(pid: number): string {
  try {
    return `${pid} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch (error) {
    if (isMissing(error)) return String(pid);
    throw error;
  }
}
