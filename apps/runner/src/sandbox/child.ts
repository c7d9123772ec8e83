import { spawn, type ChildProcess, type Serializable, type SpawnOptions } from 'node:child_process';
import { existsSync } from 'node:fs';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { endsWithin } from '../async.ts';

/** A program and its arguments, ready to spawn. */
export interface BoxedCommand {
  program: string;
  args: string[];
}

/** How a child ended. Exit code and signal are both null if it never started. */
export interface ChildEnd {
  exitCode: number | null;
  signalName: NodeJS.Signals | null;
  /** Why it could not start: ENOENT, EMFILE, ENOMEM … */
  startError?: Error;
}

export interface ChildOptions extends SpawnOptions {
  /**
   * Gives the child its own process group. The whole group ends when kill() is called and when the runner dies,
   * whatever the cause.
   */
  ownGroup?: boolean;
  /** The child, such as a box or a worker, ends with the runner by itself, so its group needs no guard. */
  endsWithRunner?: boolean;
  /** Called with errors of a running child: a signal or a message that did not reach it. */
  onTrouble?: (error: Error) => void;
}

/**
 * A child process. The daemon starts all of its children here, because spawn() is a trap on a host without free
 * descriptors: it returns a child without streams, and reports the reason in an event that ends the daemon if nothing
 * listens by then. Here a failed start is an end like any other, and streams always exist.
 */
export class Child {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process has exited; its children may still run. */
  readonly exited: Promise<ChildEnd>;
  /**
   * Resolves when no process holds the child's output any more; the processes of its box, if any, are gone then, too.
   */
  readonly closed: Promise<ChildEnd>;
  readonly #process: ChildProcess | undefined;
  readonly #ownGroup: boolean;
  readonly #onTrouble: (error: Error) => void;
  #isClosed = false;

  constructor(
    program: string,
    args: readonly string[],
    { ownGroup = false, endsWithRunner = false, onTrouble = () => undefined, ...options }: ChildOptions,
  ) {
    this.#ownGroup = ownGroup;
    this.#onTrouble = onTrouble;
    const exited = Promise.withResolvers<ChildEnd>();
    const closed = Promise.withResolvers<ChildEnd>();
    this.exited = exited.promise;
    this.closed = closed.promise.finally(() => {
      this.#isClosed = true;
    });
    const failed = (startError: Error): void => {
      const end = { exitCode: null, signalName: null, startError };
      exited.resolve(end);
      closed.resolve(end);
    };
    try {
      this.#process =
        ownGroup && !endsWithRunner
          ? spawnGroup(program, args, options)
          : spawn(program, args, { ...options, detached: ownGroup });
    } catch (error) {
      // spawn() throws these instead of emitting an event: ENOMEM, E2BIG.
      failed(error as Error);
    }
    const child = this.#process;
    child?.on('error', (error) => (child.pid === undefined ? failed(error) : onTrouble(error)));
    child?.once('exit', (exitCode, signalName) => exited.resolve({ exitCode, signalName }));
    child?.once('close', (exitCode, signalName) => closed.resolve({ exitCode, signalName }));
    this.stdin = child?.stdin ?? new PassThrough().resume();
    this.stdout = child?.stdout ?? new PassThrough().end();
    this.stderr = child?.stderr ?? new PassThrough().end();
  }

  /** Undefined if it could not start. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#process?.on('message', listener);
  }

  /**
   * Sends a message over the channel requested in `stdio`. Calls `onError` if the message can't be sent; usually the
   * child's end follows.
   */
  send(message: Serializable, onError: (error: Error) => void): void {
    // Without descriptors there is no channel.
    if (this.#process?.pid !== undefined) this.#process.send(message, (error) => error && onError(error));
  }

  /** Uses SIGKILL, because nothing else ends a process in a hung native call. */
  kill(): void {
    const pid = this.pid;
    if (pid === undefined || this.#isClosed) return;
    if (!this.#ownGroup) {
      this.#process!.kill('SIGKILL');
      return;
    }
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // ESRCH: the group's last process ended a moment ago.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') this.#onTrouble(error as Error);
    }
  }

  /**
   * Resolves when no process holds the child's output any more, or `patienceMs` after its exit, because its children
   * may hold the output forever.
   */
  async ended(patienceMs: number): Promise<ChildEnd> {
    const end = await Promise.race([this.closed, this.exited]);
    await this.closedWithin(patienceMs);
    return end;
  }

  /** Waits up to `ms` for all processes to release the output; returns whether they did. */
  closedWithin(ms: number): Promise<boolean> {
    return endsWithin(this.closed, ms);
  }
}

/** The descriptor that tells a group's guard when the runner is gone. */
const LIFELINE = 3;
/**
 * Runs a program, and in the same group a shell that waits for the end of a pipe and then kills the group. The runner
 * holds the other end, which closes when the program exits or the runner dies, even by SIGKILL. PR_SET_PDEATHSIG would
 * do less: a profiler would die, but the program it started would continue.
 */
const GUARDED = `(read -r _ <&${LIFELINE}; kill -s KILL 0) </dev/null >/dev/null 2>&1 & exec ${LIFELINE}<&-; exec "$@"`;

function spawnGroup(program: string, args: readonly string[], { stdio, ...options }: SpawnOptions): ChildProcess {
  const child = spawn('/bin/sh', ['-c', GUARDED, 'sh', program, ...args], {
    ...options,
    detached: true,
    stdio: [...(stdio as ['ignore', 'pipe', 'pipe']), 'pipe'],
  });
  const lifeline = child.stdio?.[LIFELINE];
  // Nothing is written to the pipe; a group that is gone may reset it.
  lifeline?.on('error', () => undefined);
  child.once('exit', () => lifeline?.destroy());
  return child;
}

/**
 * Path of a program of apps/runner/worker: NAME.js next to the bundle. If the runner runs from its sources, it is
 * NAME.js in the folder that FLASHCORE_PROGRAMS names (the tests build it), or else the source itself. Node then strips
 * its types, which takes ten times the processor time.
 */
export function workerProgram(name: string, source: string): string {
  const file = `${name}.js`;
  const bundled = new URL(file, import.meta.url);
  if (existsSync(bundled)) return fileURLToPath(bundled);
  const folder = process.env['FLASHCORE_PROGRAMS'];
  return folder ? `${folder}/${file}` : fileURLToPath(new URL(`../../worker/${source}`, import.meta.url));
}
