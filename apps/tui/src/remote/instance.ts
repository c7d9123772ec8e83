/**
 * This machine's record of a host that hooks start and stop: since when it costs money, and which process watches it.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder, stateFolder, isRunning } from '@flashcore/shared/files';
import * as z from 'zod';
import type { Hooks } from './hooks.ts';
import { IDLE } from './ssh-address.ts';

const RECORD = z.object({
  /** Milliseconds since 1970; absent if the host was not started here. */
  startedAt: z.number().optional(),
  usdPerHour: z.number().optional(),
  /** The reason why the host could not be stopped and still costs money. */
  problem: z.string().max(2_000).optional(),
});
export type InstanceRecord = z.output<typeof RECORD>;

const HOUR_MS = 3_600_000;

/** The state of one runner's host, in files in the user's state folder. */
export class Instance {
  readonly #stem: string;

  /** `runner` is the name in the hooks. */
  constructor(runner: string, environment: NodeJS.ProcessEnv) {
    const digest = createHash('sha256').update(runner).digest('hex').slice(0, 16);
    this.#stem = path.join(stateFolder(environment), 'hosts', digest);
  }

  /** Log file of the idle watcher. */
  get logFile(): string {
    return `${this.#stem}.log`;
  }

  /** The record; empty if there is none or it can't be read. */
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

  /** Forgets the record of a host that is no longer running and costs nothing. */
  forget(): void {
    rmSync(`${this.#stem}.json`, { force: true });
  }

  /** Records that somebody on this machine is using the host now. */
  touch(now = new Date()): void {
    this.#makeFolder();
    writeFileSync(`${this.#stem}.used`, '', { mode: 0o600, flag: 'a' });
    utimesSync(`${this.#stem}.used`, now, now);
  }

  /** Time of the last use from this machine; 0 if there was none. */
  lastUsed(): number {
    return statSync(`${this.#stem}.used`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  }

  /** Makes this process the idle watcher. Returns false if another process already is. */
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

  /** True if this process is the watcher. */
  ownsWatch(pid = process.pid): boolean {
    return this.#readWatch() === watcher(pid);
  }

  leaveWatch(): void {
    if (this.ownsWatch()) this.endWatch();
  }

  /** Ends the watch. The watching process exits when it notices. */
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

  /** The watcher as recorded; empty if there is none. */
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

/** Dollars since the start, if start and rate are known. */
export const costSoFar = ({ startedAt, usdPerHour }: InstanceRecord, now: number): number | undefined =>
  startedAt === undefined || usdPerHour === undefined
    ? undefined
    : (Math.max(0, now - startedAt) / HOUR_MS) * usdPerHour;

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** A process id with the id of the boot in which it is valid. On a system without boot ids, only the process id. */
function watcher(pid: number): string {
  try {
    return `${pid} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch (error) {
    if (isMissing(error)) return String(pid);
    throw error;
  }
}

/** A runner whose host can be started and stopped. */
interface Watched {
  /** Name of the runner in the hooks. */
  readonly runner: string;
  readonly hooks: Hooks;
  readonly environment: NodeJS.ProcessEnv;
  readonly startRunner: boolean;
}

/**
 * Starts a background process that stops the host when it is idle. Does nothing if there is such a process already, or
 * if the hooks can't stop the host.
 */
export function leaveIdleWatch(
  { runner, hooks, environment, startRunner }: Watched,
  note: (text: string) => void,
): void {
  const { stop, stopAfterIdleMinutes } = hooks;
  if (!stop || stopAfterIdleMinutes === undefined) return;
  const instance = new Instance(runner, environment);
  if (instance.isWatched()) return;
  leaveProcess([IDLE, runner, ...(startRunner ? ['--start-runner'] : [])], environment);
  note(
    `host: it is stopped when no job ran for ${stopAfterIdleMinutes} min, by this machine while it is awake; ${instance.logFile}`,
  );
}

/** Starts this program with other arguments as a process that outlives the current one and its terminal. */
function leaveProcess(args: readonly string[], environment: NodeJS.ProcessEnv): void {
  spawn(process.execPath, [process.argv[1]!, ...args], {
    detached: true,
    cwd: '/',
    env: environment,
    stdio: 'ignore',
  }).unref();
}
