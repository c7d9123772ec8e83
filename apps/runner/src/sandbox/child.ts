import { spawn, type ChildProcess, type Serializable, type SpawnOptions } from 'node:child_process';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { endsWithin } from '../async.ts';

/** How a child ended. Exit code and signal are both null where it was never there. */
export interface ChildEnd {
  exitCode: number | null;
  signalName: NodeJS.Signals | null;
  /** Why it could not be started: ENOENT, EMFILE, ENOMEM … */
  startError?: Error;
}

export interface ChildOptions extends SpawnOptions {
  /**
   * Leads a process group of its own, all of which kill() ends, and which ends with the runner, however the runner
   * dies.
   */
  ownGroup?: boolean;
  /** It ends with the runner by itself, as a box and a worker do: its group needs no guard. */
  endsWithRunner?: boolean;
  /** What goes wrong with a child that runs: a signal or a message that did not reach it. */
  onTrouble?: (error: Error) => void;
}

/**
 * A child process. All that the daemon starts and listens to is started here, for spawn() is a trap on a host without
 * free descriptors: it gives a child that
 * has no streams, and tells why in an event that ends the daemon if nobody listens by then. Here a failed start is an
 * end like any other, and streams are always there.
 */
export class Child {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Its process is gone; what it started may not be. */
  readonly exited: Promise<ChildEnd>;
  /** Nobody holds its output any more: with a box around it, what ran in the box is gone too. */
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
      // What spawn() does not tell by an event: ENOMEM, E2BIG.
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

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#process?.on('message', listener);
  }

  /**
   * Over the channel that `stdio` asked for. A message that can't be sent is trouble; most often it is followed by the
   * end.
   */
  send(message: Serializable, onError: (error: Error) => void): void {
    // Without descriptors there is no channel either.
    if (this.#process?.pid !== undefined) this.#process.send(message, (error) => error && onError(error));
  }

  /** SIGKILL: in a hung native call nothing else ends a process. */
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
      // ESRCH: its last process ended a moment ago.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') this.#onTrouble(error as Error);
    }
  }

  /**
   * Its end: when nobody holds its output any more, or so long after its exit, for what it started may hold it for
   * ever.
   */
  async ended(patienceMs: number): Promise<ChildEnd> {
    const end = await Promise.race([this.closed, this.exited]);
    await this.closedWithin(patienceMs);
    return end;
  }

  /** Whether nobody holds its output any more, after waiting for that so long. */
  closedWithin(ms: number): Promise<boolean> {
    return endsWithin(this.closed, ms);
  }
}

/** The descriptor by which a group's guard sees that the runner is gone. */
const LIFELINE = 3;
/**
 * A program, and beside it in its group a shell that waits for the end of a pipe and then kills the group. The runner
 * holds the other end: it closes when the
 * program exits, and when the runner dies, of SIGKILL too. PR_SET_PDEATHSIG would do less: a profiler would die, and
 * the program that it had started run on.
 */
const GUARDED = `(read -r _ <&${LIFELINE}; kill -s KILL 0) </dev/null >/dev/null 2>&1 & exec ${LIFELINE}<&-; exec "$@"`;

function spawnGroup(program: string, args: readonly string[], { stdio, ...options }: SpawnOptions): ChildProcess {
  const child = spawn('/bin/sh', ['-c', GUARDED, 'sh', program, ...args], {
    ...options,
    detached: true,
    stdio: [...(stdio as ['ignore', 'pipe', 'pipe']), 'pipe'],
  });
  const lifeline = child.stdio?.[LIFELINE];
  // Nothing is written to it; a group that is gone may reset it.
  lifeline?.on('error', () => undefined);
  child.once('exit', () => lifeline?.destroy());
  return child;
}
