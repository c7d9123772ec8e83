import { create } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  Outcome,
  JobFinishedSchema,
  JobStartedSchema,
  asFlashcoreError,
  type JobResult,
} from '@flashcore/shared/contract';
import { pause, within } from '../async.ts';
import type { Logger } from '../log.ts';
import type { DeviceDescription, JobBody, JobContext, JobOutcome, JobPayload } from './job-context.ts';
import { endByError, endByStop, type StopCause } from './job-end.ts';
import { isStorageFailure, storageError } from '../store/storage-error.ts';
import type { JobRecorder } from './job-recorder.ts';

/**
 * A stopped body has this long to settle. After that the job ends without the body, and its device stays held until the
 * body settles.
 */
export const STOP_GRACE_MS = 5_000;
/** Delay before storing a job's end again after the store refused it. */
const STORE_AGAIN_MS = 1_000;
/** How long watchers wait for an end that the store refuses before they get the reason. */
const TELL_AFTER_MS = 5_000;

export interface JobRunOptions {
  jobId: number;
  name: string;
  /** The client that owns the job. */
  owner: string;
  /** The client is charged the job's cost divided by this weight. */
  weight: number;
  deviceId: string;
  /** Undefined: the body is made from the job's kept request when it runs. */
  body: JobBody | undefined;
  /** Whether the body takes and leaves its device itself. */
  takesDevice: boolean;
  /** Compiles what the body will need. */
  compileAhead?: ((signal: AbortSignal) => Promise<void>) | undefined;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  /** For a job left by an earlier runner: when it was created, and when it began to run, if it did. */
  before?: { createMs: number; startMs: number | null } | undefined;
}

/** Shared by all jobs. Thousands may wait, so each job holds little more than its name. */
export interface JobRunHost {
  logger: Logger;
  /** Makes the recorder of the job's further events. */
  recorderOf: (run: JobRun) => JobRecorder;
  /** Makes the body of a job whose request was kept. */
  keptBodyOf: (run: JobRun) => JobBody;
  /** Stores that the job is running; part of a transaction. */
  markStarted: (run: JobRun, startMs: number) => void;
  /** Stores the job's outcome; part of a transaction. */
  markEnded: (run: JobRun, end: JobOutcome, times: EndTimes) => void;
  /** Called with errors that may mean that the store takes no writes. */
  onStoreFailure: (thrown: unknown) => void;
  /** Resolves when the store may take writes again. */
  whenWritable: () => Promise<void>;
  /** Called when the job left the queue because it was stopped while it waited. */
  onLeftQueue: (run: JobRun) => void;
  /** Called when the store has refused the job's end for a while. */
  onEndHeld: (run: JobRun, error: FlashcoreError) => void;
  /** Called when the job's end is stored. */
  onEnded: (run: JobRun) => void;
  nowMs: () => number;
  elapsedMs: () => number;
}

/** When a job ended, and how long it had its device. */
export interface EndTimes {
  endMs: number;
  /** Undefined if not known. */
  deviceMs?: number;
}

/** State of one run of the body. A kept job that the store held up gets a new state for its next run. */
interface Running {
  controller: AbortController;
  /** Resolves when the run is stopped. */
  stopped: PromiseWithResolvers<void>;
  /** Whether the store refused an event of a kept job. */
  isHeld: boolean;
  /** The outcome that the body reported before its end. */
  decided?: JobOutcome;
}

/**
 * Abort reason for a kept job's body when the store takes no writes. The job was accepted, so it resumes once the store
 * takes writes again, as it would after a restart of the runner.
 */
export class JobHeld extends Error {
  override readonly name = 'JobHeld';
}

type State = 'queued' | 'running' | 'ending' | 'ended';

/** One job from the queue to its end: queued → running → ending → ended, or queued → ending → ended. */
export class JobRun {
  readonly jobId: number;
  readonly name: string;
  readonly owner: string;
  readonly weight: number;
  readonly maxRunSeconds: number;
  readonly deviceId: string;
  readonly #host: JobRunHost;
  readonly #takesDevice: boolean;
  /** When an earlier runner started the job. */
  readonly #startedMs: number | undefined;
  readonly #body: JobBody | undefined;
  /** Undefined once the function was called. */
  #compileAhead: JobRunOptions['compileAhead'];
  /** Aborted when the job is stopped, or left to another runner. */
  readonly #ahead = new AbortController();
  /** Whether the log already has the job's `started` event. */
  #toldStart: boolean;
  #queueTimer: NodeJS.Timeout | undefined;
  #recorder: JobRecorder | undefined;
  #running: Running | undefined;
  #state: State = 'queued';
  #stopCause: StopCause | undefined;
  /** Partial results of the body, used if it throws. */
  #kept: JobResult | undefined;
  /** Device time so far, without the time since #deviceSinceMs. */
  #deviceMs = 0;
  #deviceSinceMs: number | undefined;
  #runTimer: NodeJS.Timeout | undefined;
  /** Whether the job is left to another runner. */
  #left = false;

  constructor({ maxQueueSeconds, before, ...options }: JobRunOptions, host: JobRunHost) {
    this.#host = host;
    this.jobId = options.jobId;
    this.name = options.name;
    this.owner = options.owner;
    this.weight = options.weight;
    this.maxRunSeconds = options.maxRunSeconds;
    this.deviceId = options.deviceId;
    this.#body = options.body;
    this.#compileAhead = options.compileAhead;
    this.#takesDevice = options.takesDevice;
    this.#startedMs = before?.startMs ?? undefined;
    this.#toldStart = this.#startedMs !== undefined;
    this.#queueTimer = setTimeout(
      () => this.stop({ type: 'queue-limit', seconds: maxQueueSeconds, deviceId: this.deviceId }),
      leftMs(maxQueueSeconds, before?.createMs),
    );
  }

  get state(): State {
    return this.#state;
  }

  #record(payload: JobPayload, alongside?: () => void): void {
    this.#recorderNow().record(payload, alongside);
  }

  #recorderNow(): JobRecorder {
    return (this.#recorder ??= this.#host.recorderOf(this));
  }

  /** Total device time up to `elapsedMs` on the monotonic clock. */
  deviceMs(elapsedMs: number): number {
    return this.#deviceMs + (this.#deviceSinceMs === undefined ? 0 : elapsedMs - this.#deviceSinceMs);
  }

  /**
   * Whether the job has its device. The job's run limit begins when it first gets a device; before that, the queue
   * limit applies.
   */
  get hasDevice(): boolean {
    return this.#deviceSinceMs !== undefined;
  }

  #setDevice(has: boolean): void {
    if (has) this.#leaveQueue();
    if (has)
      this.#runTimer ??= setTimeout(
        () => this.stop({ type: 'run-limit', seconds: this.maxRunSeconds }),
        leftMs(this.maxRunSeconds, this.#startedMs),
      );
    const now = this.#host.elapsedMs();
    this.#deviceMs = this.deviceMs(now);
    this.#deviceSinceMs = has ? now : undefined;
  }

  /** Compiles what the body will need, once, if the job still waits. Never rejects; the body's build reports errors. */
  async compileAhead(): Promise<void> {
    const compile = this.#compileAhead;
    this.#compileAhead = undefined;
    if (this.#state !== 'queued' || this.#ahead.signal.aborted) return;
    await compile?.(this.#ahead.signal).catch((thrown: unknown) =>
      this.#host.logger.debug({ job: this.name, err: thrown }, 'the waiting job was not compiled'),
    );
  }

  /** Whether compileAhead() has something to do. */
  get canCompileAhead(): boolean {
    return this.#compileAhead !== undefined;
  }

  /** Stops the job from outside. Only the first cause has an effect, and only while the body has not settled. */
  stop(cause: StopCause): void {
    if (this.#left || this.#stopCause || this.#state === 'ending' || this.#state === 'ended') return;
    if (cause.type === 'queue-limit' && this.#runTimer) return;
    this.#stopCause = cause;
    this.#ahead.abort(new DOMException(`The job was stopped: ${cause.type}`, 'AbortError'));
    if (this.#state === 'queued') {
      this.#host.onLeftQueue(this);
      void this.#finish(endByStop(cause, 'queued'));
      return;
    }
    this.#running?.controller.abort(new DOMException(`The job was stopped: ${cause.type}`, 'AbortError'));
    this.#running?.stopped.resolve();
  }

  /** Leaves the stored job to another runner; this one stores nothing more of it. */
  leave(): void {
    this.#left = true;
    this.#ahead.abort(new DOMException('Another runner goes on with the job', 'AbortError'));
    this.#leaveQueue();
    clearTimeout(this.#runTimer);
    this.#running?.controller.abort(new DOMException('Another runner goes on with the job', 'AbortError'));
    this.#running?.stopped.resolve();
  }

  /**
   * Runs the body on its device. Resolves when the body has settled, that is, when the device is free. Never rejects.
   */
  async run(device: DeviceDescription): Promise<void> {
    this.#state = 'running';
    if (!this.#takesDevice) this.#setDevice(true);
    for (;;) {
      const running = newRunning();
      this.#running = running;
      const body = this.#runBody(device, running);
      const end = await Promise.race([body, running.stopped.promise.then(() => within(body, STOP_GRACE_MS))]);
      if (end === 'held' && !this.#stopCause && !this.#left) {
        await Promise.race([this.#host.whenWritable(), running.stopped.promise]);
        if (!this.#stopCause && !this.#left) continue;
      }
      if (this.#left) return;
      const found = end === 'held' ? undefined : end;
      await this.#finish(
        this.#stopCause
          ? endByStop(this.#stopCause, 'running', { result: found?.result, decided: running.decided })
          : (found ?? endByError(new Error('a body was given up without being stopped'))),
      );
      if (end === undefined)
        this.#host.logger.error(
          { job: this.name, device: device.deviceId },
          'the job did not stop; its device is held until it does',
        );
      await body;
      this.#setDevice(false);
      return;
    }
  }

  /** How the body ends; 'held' if the store refused an event and the body must run again. */
  async #runBody(device: DeviceDescription, running: Running): Promise<JobOutcome | 'held'> {
    try {
      if (!this.#toldStart)
        this.#record({ case: 'started', value: create(JobStartedSchema, { device }) }, () =>
          this.#host.markStarted(this, this.#host.nowMs()),
        );
      this.#toldStart = true;
      const body = this.#body ?? this.#host.keptBodyOf(this);
      const end = await body(this.#context(device, running));
      return running.isHeld ? 'held' : end;
    } catch (thrown) {
      if (this.#left) return endByError(thrown);
      if (running.isHeld) return 'held';
      const error = asFlashcoreError(storageError(thrown, 'store what the job found'));
      this.#host.onStoreFailure(error);
      if (this.#hold(running, error)) return 'held';
      if (!this.#stopCause)
        this.#host.logger.warn(
          { job: this.name, reason: error.reason, ...error.metadata, err: thrown },
          'the job could not be carried out',
        );
      return endByError(error, this.#kept);
    } finally {
      clearTimeout(this.#runTimer);
      this.#runTimer = undefined;
    }
  }

  /** Whether the job waits for the store. Only kept jobs do, because their request can be run again from the store. */
  #hold(running: Running, error: unknown): boolean {
    if (this.#body || this.#stopCause || !isStorageFailure(error)) return false;
    running.isHeld = true;
    // The next run of the body emits the unstored events again.
    this.#recorder?.drop();
    this.#recorder = undefined;
    this.#host.logger.warn({ job: this.name, reason: error.reason }, 'the job waits until the store takes writes');
    running.controller.abort(new JobHeld(`The job waits: ${error.message}`));
    return true;
  }

  #context(device: DeviceDescription, running: Running): JobContext {
    return {
      name: this.name,
      owner: this.owner,
      signal: running.controller.signal,
      device,
      emit: (payload, alongside) => {
        if (!running.isHeld) this.#emit(payload, alongside);
      },
      hasDevice: (has) => this.#setDevice(has),
      keep: (found) => {
        this.#kept = found;
      },
      decide: (end) => {
        running.decided = end;
      },
    };
  }

  #emit(payload: JobPayload, alongside?: () => void): void {
    if (this.#state !== 'running' || this.#left) return;
    if (
      payload.case === 'created' ||
      payload.case === 'started' ||
      payload.case === 'finished' ||
      payload.case === undefined
    ) {
      throw new Error(`A body can't emit ${String(payload.case)}: that event is the queue's own`);
    }
    try {
      const recorder = this.#recorderNow();
      if (payload.case === 'logLine') recorder.recordLogLine(payload.value.source, payload.value.text, alongside);
      else recorder.recordWhenFree(payload, alongside);
    } catch (thrown) {
      // Bodies also emit from event handlers, where an uncaught error would end the daemon with all its jobs.
      this.failed(thrown);
    }
  }

  /** Stops the job, or holds a kept job, because one of its events could not be stored. */
  failed(thrown: unknown): void {
    this.#host.onStoreFailure(thrown);
    const running = this.#running;
    if (this.#state === 'running' && running && (running.isHeld || this.#hold(running, thrown))) return;
    this.stop({ type: 'failed', error: asFlashcoreError(thrown) });
  }

  /** Stores the job's end, retrying while the store takes no writes. */
  async #finish(end: JobOutcome): Promise<void> {
    this.#leaveQueue();
    this.#state = 'ending';
    const sinceMs = performance.now();
    for (let failure = this.#storeEnd(end); failure; failure = this.#storeEnd(end)) {
      if (performance.now() - sinceMs > TELL_AFTER_MS) this.#host.onEndHeld(this, endHeld(this.name, failure));
      await pause(STORE_AGAIN_MS);
    }
    this.#state = 'ended';
    this.#host.onEnded(this);
  }

  #leaveQueue(): void {
    clearTimeout(this.#queueTimer);
    this.#queueTimer = undefined;
  }

  /** Stores the job's end; returns the failure, or undefined if it was stored. */
  #storeEnd(end: JobOutcome): FlashcoreError | undefined {
    const { markEnded, logger } = this.#host;
    const { outcome, summary, result, error } = end;
    const endMs = this.#host.nowMs();
    const deviceMs = this.deviceMs(this.#host.elapsedMs());
    try {
      this.#record(
        { case: 'finished', value: create(JobFinishedSchema, { outcome, summary, result, ...(error && { error }) }) },
        () => markEnded(this, end, { endMs, deviceMs }),
      );
      logger.info({ job: this.name, outcome: Outcome[outcome], summary }, 'job ended');
      return undefined;
    } catch (thrown) {
      const failure = asFlashcoreError(thrown);
      this.#host.onStoreFailure(failure);
      logger.error(
        { job: this.name, reason: failure.reason, ...failure.metadata, err: thrown },
        "the job's end could not be stored",
      );
      // A result that can't be encoded would fail forever, so the job ends with an internal error instead.
      return isStorageFailure(failure) || end.error?.reason === 'INTERNAL'
        ? failure
        : this.#storeEnd(endByError(failure));
    }
  }
}

const newRunning = (): Running => ({
  controller: new AbortController(),
  stopped: Promise.withResolvers<void>(),
  isHeld: false,
});

const endHeld = (name: string, { reason, message, metadata }: FlashcoreError): FlashcoreError =>
  new FlashcoreError(
    reason,
    { ...metadata, job: name },
    `${name} has ended, and its end will be stored as soon as possible: watch it again then. ${message}`,
  );

/** Milliseconds left of a time limit that began at `sinceMs`; 0 if it ran out while no runner was up. */
function leftMs(seconds: number, sinceMs: number | null | undefined): number {
  // If the clock was set back, the limit must not grow.
  return Math.max(0, seconds * 1000 - (sinceMs == null ? 0 : Math.max(0, Date.now() - sinceMs)));
}
