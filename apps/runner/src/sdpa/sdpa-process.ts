import { createInterface } from 'node:readline';
import { Child } from '../sandbox/child.ts';
import { untilAborted } from '../async.ts';

/**
 * SDPA's process could not carry out a request. `reason` comes from the process, or is ENDED, TIME_LIMIT, NO_PYTHON.
 */
export class SdpaError extends Error {
  readonly reason: string;

  constructor(reason: string, message: string) {
    super(message);
    this.name = 'SdpaError';
    this.reason = reason;
  }
}

export interface SdpaCall {
  limitMs: number;
  signal?: AbortSignal;
}

interface Pending {
  id: number;
  resolve: (answer: Record<string, unknown>) => void;
  reject: (error: Error) => void;
}

const KEPT_ERROR_LINES = 20;
/** The process's last output may arrive after its exit. */
const AFTER_EXIT_MS = 500;
/** Exit statuses of a group whose program is missing or not executable. */
const NOT_FOUND = 127;
const NOT_RUNNABLE = 126;
const STOP_LIMIT_MS = 5_000;
/** The environment variables that PyTorch and its CUDA libraries need. */
const PASSED_ON =
  /^(PATH|HOME|TMPDIR|LANG|LD_LIBRARY_PATH|VIRTUAL_ENV|PYTHON.*|CUDA_.*|NVIDIA_.*|TORCH_.*|PYTORCH_.*)$/;

/**
 * tools/sdpa.py as a child process: one request at a time, each with a time limit. The process is killed if a request
 * exceeds its limit or is aborted, because work on the device can't be waited for.
 */
export class SdpaProcess {
  readonly #child: Child;
  /** Lines since the current request was sent. */
  #lastWords: string[] = [];
  #pending: Pending | undefined;
  /** Settles with the latest request, because requests are sent one after another. */
  #last: Promise<unknown> = Promise.resolve();
  #ended: SdpaError | undefined;
  #nextId = 1;

  constructor({ python, script }: { python: string; script: string }) {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name)));
    this.#child = new Child(python, ['-u', script], {
      ownGroup: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env,
      onTrouble: (error) => this.#lastWords.push(error.message),
    });
    createInterface(this.#child.stdout).on('line', (line) => this.#receive(line));
    createInterface(this.#child.stderr).on('line', (line) => {
      this.#lastWords.push(line);
      if (this.#lastWords.length > KEPT_ERROR_LINES) this.#lastWords.shift();
    });
    // A process that ended closes its pipe; its exit then fails the request.
    this.#child.stdin.on('error', () => undefined);
    void this.#child.ended(AFTER_EXIT_MS).then(({ exitCode, signalName, startError }) => {
      const words = this.#lastWords.at(-1);
      if (startError)
        return this.#end(new SdpaError('ENDED', `no process can be started for PyTorch: ${startError.message}`));
      if (exitCode === NOT_FOUND || exitCode === NOT_RUNNABLE)
        return this.#end(new SdpaError('NO_PYTHON', `${python} can't be started${words ? `: ${words}` : ''}`));
      this.#end(
        new SdpaError(
          'ENDED',
          `PyTorch's process ended ${signalName ? `by ${signalName}` : `with exit status ${exitCode}`}${words ? `: ${words}` : ''}`,
        ),
      );
    });
  }

  get processId(): number | undefined {
    return this.#child.pid;
  }

  get usable(): boolean {
    return this.#ended === undefined;
  }

  /**
   * Sends a request after the earlier ones were answered; its limit starts then. Errors: SdpaError; the signal's
   * reason, also while it waits.
   */
  async request(op: string, parameters: Record<string, unknown>, call: SdpaCall): Promise<Record<string, unknown>> {
    call.signal?.throwIfAborted();
    const answer = this.#last.then(() => this.#send(op, parameters, call));
    this.#last = answer.catch(() => undefined);
    return call.signal ? untilAborted(answer, call.signal) : answer;
  }

  async #send(
    op: string,
    parameters: Record<string, unknown>,
    { limitMs, signal }: SdpaCall,
  ): Promise<Record<string, unknown>> {
    signal?.throwIfAborted();
    if (this.#ended) throw this.#ended;
    const id = this.#nextId++;
    const timer = setTimeout(
      () =>
        this.#abandon(
          new SdpaError(
            'TIME_LIMIT',
            `PyTorch did not answer "${op}" within ${(limitMs / 1000).toFixed(0)} s and was killed`,
          ),
        ),
      limitMs,
    );
    const onAbort = (): void => this.#abandon(signal!.reason as Error);
    signal?.addEventListener('abort', onAbort);
    try {
      return await new Promise<Record<string, unknown>>((resolve, reject) => {
        this.#pending = { id, resolve, reject };
        this.#lastWords = [];
        this.#child.stdin.write(`${JSON.stringify({ id, op, ...parameters })}\n`);
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Kills the process and waits until it is gone, for a few seconds at most, because a process that hangs in the driver
   * may take SIGKILL late or never.
   */
  async stop(): Promise<void> {
    this.#child.kill();
    await this.#child.closedWithin(STOP_LIMIT_MS);
  }

  #receive(line: string): void {
    const pending = this.#pending;
    if (!pending) return;
    let answer: Record<string, unknown>;
    try {
      answer = JSON.parse(line) as Record<string, unknown>;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#abandon(
        new SdpaError('ENDED', `PyTorch's process answered with something else than JSON: ${line.slice(0, 200)}`),
      );
      return;
    }
    if (answer['id'] !== pending.id) return;
    this.#pending = undefined;
    if (answer['ok'] === true) pending.resolve(answer);
    else
      pending.reject(
        new SdpaError(textOf(answer['reason'], 'FAILED'), textOf(answer['message'], 'PyTorch gave no reason')),
      );
  }

  #abandon(error: Error): void {
    this.#end(error);
    this.#child.kill();
  }

  #end(error: Error): void {
    this.#ended ??=
      error instanceof SdpaError ? error : new SdpaError('ENDED', `PyTorch's process was stopped: ${error.message}`);
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.reject(error);
  }
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}
