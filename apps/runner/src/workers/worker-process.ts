import { randomUUID } from 'node:crypto';
import { constants } from 'node:os';
import type {
  Proceed,
  ReplyByRequest,
  SentRequest,
  WorkerMessage,
  WorkerNotice,
  WorkerRequest,
  CudaFault,
} from '../../worker/messages/channel.ts';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import { Child, type ChildEnd } from '../sandbox/child.ts';
import { onBoundedLines } from '../sandbox/run.ts';
import { plainWorker, type WorkerCommand } from './worker-entry.ts';

/** How a request to the worker ended. The process remains usable only after `done`. */
export type WorkerOutcome<Value> =
  | { status: 'done'; value: Value }
  /** A CUDA error, usually caused by a kernel. */
  | { status: 'fault'; fault: CudaFault }
  /** A call did not return within its limit; the process was killed. */
  | { status: 'time-limit'; step: string; limitMs: number }
  /** The process ended by itself. */
  | { status: 'crashed'; step: string; exitCode: number | null; signalName: string | null; lastWords: string }
  /**
   * An error of the runner, the host or, with `wrongDefinition`, the problem's own reference; not of the kernel. The
   * process was ended, because it still had the request's allocations.
   */
  | { status: 'failed'; message: string; wrongDefinition?: boolean | undefined };

type Ending = WorkerOutcome<never> | { status: 'done'; value: unknown };

/** idle ⇄ busy → ended; ended is final, and a new process replaces this one. */
type State = 'idle' | 'busy' | 'ended';

export interface RequestOptions {
  signal: AbortSignal;
  onNotice?: (notice: WorkerNotice) => void;
  /**
   * Measures something else while the worker leaves the device to it. A rejection ends the request by killing the
   * process.
   */
  onTurn?: (mode: TimingModeName) => Promise<void>;
}

/** Limit of a request until its first step. */
const FIRST_STEP_LIMIT_MS = 30_000;
/** Messages may be late on a busy machine. */
const GRACE_MS = 1_500;
const KEPT_ERROR_LINES = 20;
const LAST_WORDS_MS = 50;
/** Kernel output arrives on a different channel from the answer, usually before it. */
const OUTPUT_LIMIT_MS = 1_000;
/**
 * Time from a process's exit to its last output, or to the end of its boxed program: a box exits before its program.
 */
const AFTER_EXIT_MS = 1_000;
/** Time from SIGKILL until a process is gone: freeing its memory takes some 90 ms per GB. */
const STOP_LIMIT_MS = 5_000;

/**
 * One worker process. A request ends in exactly one outcome, whatever happens to the process: it answers, faults,
 * crashes, or hangs and is killed. The time limit in force is that of the last step that the worker announced.
 */
export class WorkerProcess {
  readonly #child: Child;
  /** Lines of stderr during the running request, and errors between runner and process. */
  #lastWords: string[] = [];
  readonly #output: RequestOutput;
  readonly #errors = new RequestOutput((line) => this.#addLastWord(line));
  /** Set while the answer has arrived but the kernels' output has not. */
  #answered: (() => void) | undefined;
  #state: State = 'idle';
  #settle: ((outcome: Ending) => void) | undefined;
  #onNotice: ((notice: WorkerNotice) => void) | undefined;
  #onTurn: RequestOptions['onTurn'];
  #step = 'starting';
  #timer: NodeJS.Timeout | undefined;
  #killed = false;
  #killedBy: { step: string; limitMs: number } | undefined;
  /** Whether the worker reported how the candidate's process ended; the worker's own end then says nothing new. */
  #hasCrashed = false;

  constructor(onOutput: (line: string) => void, { program, args, env }: WorkerCommand = plainWorker()) {
    // Opens a message channel like fork(), which can't start a process in a box.
    this.#child = new Child(program, args, {
      ownGroup: true,
      endsWithRunner: true,
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env,
      onTrouble: (error) => this.#lastWords.push(error.message),
    });
    // This output is what kernels print.
    this.#output = new RequestOutput(onOutput);
    onBoundedLines(this.#child.stdout, (line) => this.#output.hear(line));
    onBoundedLines(this.#child.stderr, (line) => this.#errors.hear(line));
    this.#child.onMessage((message) => this.#receive(message as WorkerMessage));
    void this.#child.ended(AFTER_EXIT_MS).then((end) => this.#end(end));
  }

  get usable(): boolean {
    return this.#state === 'idle';
  }

  get processId(): number | undefined {
    return this.#child.pid;
  }

  /** Sends a request and waits for its end. Errors: the signal's reason, after killing the process. */
  async request<Request extends WorkerRequest>(
    request: Request,
    { signal, onNotice, onTurn }: RequestOptions,
  ): Promise<WorkerOutcome<ReplyByRequest[Request['type']]>> {
    if (this.#state !== 'idle') throw new Error(`A worker takes one request at a time: it is ${this.#state}`);
    signal.throwIfAborted();
    this.#state = 'busy';
    this.#onNotice = onNotice;
    this.#onTurn = onTurn;
    const onAbort = (): void => this.#kill();
    signal.addEventListener('abort', onAbort);
    try {
      const outcome = await new Promise<WorkerOutcome<unknown>>((resolve) => {
        this.#settle = resolve;
        this.#limit(`${request.type} request`, FIRST_STEP_LIMIT_MS);
        const outputEnd = randomUUID();
        this.#output.begin(outputEnd);
        this.#errors.begin(outputEnd);
        this.#lastWords = [];
        const sent: SentRequest = { ...request, outputEnd };
        // A failed send is followed by the exit, which settles the request.
        this.#child.send(sent, (error) => this.#lastWords.push(error.message));
      });
      signal.throwIfAborted();
      return outcome as WorkerOutcome<ReplyByRequest[Request['type']]>;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#onNotice = undefined;
      this.#onTurn = undefined;
    }
  }

  /**
   * Kills the process and waits until it is gone, with all processes that hold its output. False if this took too long:
   * it may still hold the device.
   */
  stop(): Promise<boolean> {
    this.#kill();
    return this.#child.closedWithin(STOP_LIMIT_MS);
  }

  #receive(message: WorkerMessage): void {
    // Late messages of a killed process are ignored.
    if (this.#state !== 'busy' || this.#killed) return;
    switch (message.type) {
      case 'step':
        this.#limit(message.what, message.limitMs);
        return;
      case 'seed':
      case 'launch':
      case 'output':
      case 'samples':
      case 'pairs':
      case 'conditions':
        this.#onNotice?.(message);
        return;
      case 'turn':
        this.#takeTurn(message.mode);
        return;
      case 'done':
        this.#finishAfterOutput('idle', { status: 'done', value: message.value });
        return;
      case 'fault':
        // The process exits by itself; it must get no further request.
        this.#finishAfterOutput('ended', { status: 'fault', fault: message.fault });
        return;
      case 'crashed':
        this.#crashed(message);
        return;
      case 'failed':
        this.#finish('ended', {
          status: 'failed',
          message: message.message,
          wrongDefinition: message.wrongDefinition,
        });
        this.#kill();
        return;
    }
  }

  /** Handles the end of the candidate's process, whose last output came over the worker's stderr. */
  #crashed({ exitCode, signalName, problem }: Extract<WorkerMessage, { type: 'crashed' }>): void {
    const step = this.#step;
    this.#hasCrashed = true;
    // The candidate's last output may still be on its way.
    setTimeout(() => {
      this.#finish('ended', {
        status: 'crashed',
        step,
        ...signalOf(exitCode, signalName),
        lastWords: [...this.#lastWords, ...(problem === undefined ? [] : [problem])].join('\n'),
      });
      this.#kill();
    }, LAST_WORDS_MS);
    clearTimeout(this.#timer);
  }

  /** Suspends the step's limit while something else is measured, because that measurement has its own limits. */
  #takeTurn(mode: TimingModeName): void {
    clearTimeout(this.#timer);
    const turn = this.#onTurn?.(mode) ?? Promise.resolve();
    turn.then(
      () => {
        if (this.#state !== 'busy' || this.#killed) return;
        this.#limit(this.#step, FIRST_STEP_LIMIT_MS);
        this.#child.send({ type: 'proceed' } satisfies Proceed, (error) => this.#lastWords.push(error.message));
      },
      (error: unknown) => {
        this.#lastWords.push(String(error));
        this.#kill();
      },
    );
  }

  #addLastWord(line: string): void {
    this.#lastWords.push(line);
    if (this.#lastWords.length > KEPT_ERROR_LINES) this.#lastWords.shift();
  }

  #limit(step: string, limitMs: number): void {
    clearTimeout(this.#timer);
    this.#step = step;
    this.#timer = setTimeout(() => {
      this.#killedBy = { step, limitMs };
      this.#kill();
    }, limitMs + GRACE_MS);
  }

  /** If even SIGKILL does not end the process, it hangs in the driver; its request ends anyway. */
  #kill(): void {
    this.#killed = true;
    this.#child.kill();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end({ exitCode: null, signalName: 'SIGKILL' }), STOP_LIMIT_MS).unref();
  }

  #finishAfterOutput(state: State, outcome: Ending): void {
    clearTimeout(this.#timer);
    this.#answered = () => {
      this.#answered = undefined;
      this.#finish(state, outcome);
    };
    this.#timer = setTimeout(this.#answered, OUTPUT_LIMIT_MS);
    void this.#output.ended.then(() => this.#answered?.());
  }

  #finish(state: State, outcome: Ending): void {
    clearTimeout(this.#timer);
    const settle = this.#settle;
    this.#settle = undefined;
    this.#state = state;
    settle?.(outcome);
  }

  #end({ exitCode, signalName, startError }: ChildEnd): void {
    if (this.#hasCrashed) return;
    if (this.#answered) {
      this.#answered();
      this.#state = 'ended';
    } else if (startError)
      this.#finish('ended', {
        status: 'failed',
        message: `the worker process can't be started: ${startError.message}`,
      });
    else if (this.#killedBy) this.#finish('ended', { status: 'time-limit', ...this.#killedBy });
    else
      this.#finish('ended', {
        status: 'crashed',
        step: this.#step,
        ...signalOf(exitCode, signalName),
        lastWords: this.#lastWords.join('\n'),
      });
  }
}

/** A box, like a shell, reports a signal as 128 plus its number. */
function signalOf(
  exitCode: number | null,
  signalName: string | null,
): { exitCode: number | null; signalName: string | null } {
  const signal =
    exitCode !== null && exitCode > 128
      ? Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0]
      : undefined;
  return signal ? { exitCode: null, signalName: signal } : { exitCode, signalName };
}

/**
 * Output of the kernels of one request, line by line, on a stream shared by all requests of a process. An unguessable
 * line ends each request, so late output of an earlier one, perhaps another client's, is dropped.
 */
class RequestOutput {
  readonly #onLine: (line: string) => void;
  #end: { line: string; ended: PromiseWithResolvers<void> } | undefined;
  /** End lines of earlier requests that have not arrived yet. */
  readonly #former = new Set<string>();
  /** A blank line, perhaps just before the end line, is held until another line follows. */
  #blank = false;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Resolves when all output of the latest request was passed on. */
  get ended(): Promise<void> {
    return this.#end?.ended.promise ?? Promise.resolve();
  }

  begin(endLine: string): void {
    if (this.#end) this.#former.add(this.#end.line);
    this.#end = { line: endLine, ended: Promise.withResolvers() };
    this.#blank = false;
  }

  hear(line: string): void {
    if (this.#former.delete(line)) return;
    if (!this.#end || this.#former.size > 0) return;
    if (line === this.#end.line) {
      this.#end.ended.resolve();
      this.#end = undefined;
      return;
    }
    if (this.#blank) this.#onLine('');
    this.#blank = line === '';
    if (!this.#blank) this.#onLine(line);
  }
}
