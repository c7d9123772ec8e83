import { killGroup, killMarked } from '@flashcore/shared/files';
import type { ReplyByRequest, WorkerRequest } from '../../worker/messages/channel.ts';
import type { DeviceFacts, Executor, OpenRequest } from '../../worker/messages/device.ts';
import { untilAborted } from '../async.ts';
import { plainWorker, type WorkerCommand } from './worker-entry.ts';
import { WorkerProcess, type RequestOptions, type WorkerOutcome } from './worker-process.ts';

export interface DeviceWorkerOptions {
  deviceId: string;
  /** Options to open a worker; called at each start, because the worker may have to be compiled. */
  open: (signal: AbortSignal) => Promise<Omit<OpenRequest, 'type'>>;
  /** Command of the worker process; default: with the rights of the runner. */
  command?: () => Promise<WorkerCommand>;
  /** Path of the canary kernel's image. */
  canary: (signal: AbortSignal) => Promise<string>;
}

export interface DeviceRequestOptions extends RequestOptions {
  /** Called with each line that a kernel printed. */
  onOutput?: (line: string) => void;
}

const CANARY_TRIES = 3;

/** No worker process that can use the device could be started. */
export class DeviceNotServing extends Error {}

/**
 * The worker process of one device, kept warm between jobs. After a fault, a crash or a kill, a new process replaces
 * it, and a canary kernel must give its known answer before the device serves again; otherwise the device is
 * quarantined.
 */
export class DeviceWorker {
  readonly #options: DeviceWorkerOptions;
  #process: WorkerProcess | undefined;
  #facts: DeviceFacts | undefined;
  #needsCanary = false;
  /** Settles with the start in progress. */
  #starting: Promise<void> = Promise.resolve();
  #quarantine: string | undefined;
  #onOutput: ((line: string) => void) | undefined;
  #owner: string | undefined;
  /** Identifies processes that a candidate left behind: a cgroup or, if no box ends them, an environment variable. */
  #left: Pick<Executor, 'mark' | 'group'> = {};
  /** Whether the process may get no more requests: it ran another owner's code, or was retired. */
  #outworn = false;

  constructor(options: DeviceWorkerOptions) {
    this.#options = options;
  }

  /**
   * Sets the owner of the next requests. State from one owner's code (a context, its memory, persisting lines of L2)
   * must never serve another owner, so a new process is started.
   */
  serve(owner: string): void {
    if (this.#owner !== undefined && this.#owner !== owner) this.#outworn = true;
    this.#owner = owner;
  }

  /** Retires the process: its later output is dropped, and the next request gets a new process. */
  retire(): void {
    this.#outworn = true;
  }

  /** Why the device takes no work; undefined if it does. */
  get quarantineReason(): string | undefined {
    return this.#quarantine;
  }

  /** The driver's description of the device; undefined before it was first opened. */
  get facts(): DeviceFacts | undefined {
    return this.#facts;
  }

  /**
   * Sends a request to a ready process, starting one if there is none. Errors: the signal's reason; DeviceNotServing;
   * those of the setup.
   */
  async request<Request extends WorkerRequest>(
    request: Request,
    options: DeviceRequestOptions,
  ): Promise<WorkerOutcome<ReplyByRequest[Request['type']]>> {
    this.#onOutput = options.onOutput;
    try {
      const worker = await this.#ready(options);
      const outcome = await worker.request(request, options);
      // The worker normally cleans up, but a candidate may have ended it.
      if (outcome.status !== 'done') this.#killLeft();
      // A `failed` worker was ended because of its memory, which says nothing about the device.
      if (!worker.usable && outcome.status !== 'failed') this.#needsCanary = true;
      return outcome;
    } catch (error) {
      // The request was aborted, so the process was killed.
      if (options.signal.aborted) this.#needsCanary = true;
      this.#killLeft();
      throw error;
    } finally {
      this.#onOutput = undefined;
    }
  }

  /** Opens the device if necessary, so that the first job need not wait for it. */
  async warmUp(options: DeviceRequestOptions): Promise<DeviceFacts> {
    await this.#ready(options);
    return this.#facts!;
  }

  /** Ends the process, or gives up after a few seconds. */
  async close(): Promise<void> {
    await this.#process?.stop();
    this.#killLeft();
  }

  #killLeft(): void {
    const { mark, group } = this.#left;
    if (group !== undefined) killGroup(group);
    if (mark !== undefined) killMarked(mark);
  }

  /**
   * Ends the process and waits until it is gone: two processes on one device disturb each other's memory and times.
   * Errors: DeviceNotServing; the signal's reason.
   */
  async #endProcess(signal: AbortSignal): Promise<void> {
    const former = this.#process;
    if (!former) {
      this.#outworn = false;
      return;
    }
    if (await untilAborted(former.stop(), signal)) {
      this.#process = undefined;
      this.#outworn = false;
      return;
    }
    this.#needsCanary = true;
    this.#quarantine = `its former worker (process ${former.processId}) was killed and does not end: it may hold the device still`;
    throw this.#notServing(this.#quarantine);
  }

  #notServing(problem: string): DeviceNotServing {
    return new DeviceNotServing(`Device ${this.#options.deviceId} does not serve: ${problem}`);
  }

  /** One start at a time: a job's warm-up may still be in progress when the next job needs the device. */
  #ready(options: DeviceRequestOptions): Promise<WorkerProcess> {
    const ready = this.#starting.then(() =>
      this.#process?.usable && !this.#outworn ? this.#process : this.#start(options),
    );
    this.#starting = ready.then(
      () => undefined,
      () => undefined,
    );
    return ready;
  }

  async #start(options: DeviceRequestOptions): Promise<WorkerProcess> {
    await this.#endProcess(options.signal);
    const setup = await this.#options.open(options.signal);
    this.#left = setup.executor ?? {};
    const canaryImage = this.#needsCanary ? await this.#options.canary(options.signal) : '';
    const tries = this.#needsCanary ? CANARY_TRIES : 1;
    const command = await untilAborted(this.#options.command?.() ?? Promise.resolve(plainWorker()), options.signal);
    let problem = '';
    for (let attempt = 0; attempt < tries; ++attempt) {
      await this.#endProcess(options.signal);
      // If the request was aborted during the start, the unopened process must not be left for the next job.
      options.signal.throwIfAborted();
      // Late output from a replaced process belongs to no request.
      const worker: WorkerProcess = new WorkerProcess((line) => {
        if (this.#process === worker && !this.#outworn) this.#onOutput?.(line);
      }, command);
      this.#process = worker;
      const opened = await worker.request({ type: 'open', ...setup }, { signal: options.signal });
      if (opened.status !== 'done') {
        problem = `it could not be opened: ${describeOutcome(opened)}`;
        continue;
      }
      this.#facts = opened.value;
      if (!this.#needsCanary) return worker;
      const canary = await worker.request({ type: 'canary', image: canaryImage }, { signal: options.signal });
      if (canary.status === 'done') {
        this.#needsCanary = false;
        this.#quarantine = undefined;
        return worker;
      }
      problem = `the canary kernel did not run after a fault: ${describeOutcome(canary)}`;
    }
    await this.#endProcess(options.signal);
    if (this.#needsCanary) this.#quarantine = problem;
    throw this.#notServing(problem);
  }
}

/** Why a request failed, if no kernel caused the failure. */
export const reasonOfFailure = ({
  wrongDefinition,
}: Extract<WorkerOutcome<unknown>, { status: 'failed' }>): 'INVALID_MANIFEST' | 'INTERNAL' =>
  wrongDefinition ? 'INVALID_MANIFEST' : 'INTERNAL';

/** An outcome other than `done`, in words. */
export function describeOutcome(outcome: WorkerOutcome<unknown>): string {
  switch (outcome.status) {
    case 'done':
      return 'done';
    case 'fault':
      return `${outcome.fault.call} failed with ${outcome.fault.name}${outcome.fault.emulator ? `: ${outcome.fault.emulator.message}` : ''}`;
    case 'time-limit':
      return `${outcome.step} did not end within ${(outcome.limitMs / 1000).toFixed(1)} s`;
    case 'crashed':
      return `the worker process ended in "${outcome.step}" ${outcome.signalName ? `by ${outcome.signalName}` : `with exit status ${outcome.exitCode}`}${outcome.lastWords ? `: ${outcome.lastWords}` : ''}`;
    case 'failed':
      return outcome.message;
  }
}
