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
 * A stopped body has this long to settle; after it the job ends without it, and its device stays held until the body
 * does settle.
 */
export const STOP_GRACE_MS = 5_000;
/** How long to wait before a job's end, which the store refused, is stored again. */
const STORE_AGAIN_MS = 1_000;
/** How long its watchers wait for an end that the store refuses, before they are told why it does not come. */
const TELL_AFTER_MS = 5_000;

export interface JobRunOptions {
  jobId: number;
  name: string;
  /** The client whose job it is. */
  owner: string;
  /** Of the client: how much of a device counts as one second of it. */
  weight: number;
  deviceId: string;
  /** Undefined: it is made of the job's kept request when it runs. */
  body: JobBody | undefined;
  /** The body takes and leaves its device itself. */
  takesDevice: boolean;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  /** Of a job that an earlier runner left: when it was made, and when it began to run, if it did. */
  before?: { createMs: number; startMs: number | null } | undefined;
}

/** What all jobs share; thousands may wait, and each holds little more than its name. */
export interface JobRunHost {
  logger: Logger;
  /** Of the job's events from now on. */
  recorderOf: (run: JobRun) => JobRecorder;
  /** Of a job whose request was kept. */
  keptBodyOf: (run: JobRun) => JobBody;
  /** Stores that the job runs; part of a transaction. */
  markStarted: (run: JobRun, startMs: number) => void;
  /** Stores the job's outcome; part of a transaction. */
  markEnded: (run: JobRun, end: JobOutcome, times: EndTimes) => void;
  /** Told of errors that may say that the store takes no writes. */
  onStoreFailure: (thrown: unknown) => void;
  /** Resolves when the store may take writes again. */
  whenWritable: () => Promise<void>;
  /** The job waits no longer: it was stopped while it was queued. */
  onLeftQueue: (run: JobRun) => void;
  /** The store has refused the job's end for a while. */
  onEndHeld: (run: JobRun, error: FlashcoreError) => void;
  /** The job's end is stored. */
  onEnded: (run: JobRun) => void;
  nowMs: () => number;
  elapsedMs: () => number;
}

/** When a job ended, and how long it had its device. */
export interface EndTimes {
  endMs: number;
  /** Undefined: not known. */
  deviceMs?: number;
}

/** What a job has only while it runs; a kept one that the store held up has another then. */
interface Running {
  controller: AbortController;
  /** Resolves when it is stopped. */
  stopped: PromiseWithResolvers<void>;
  /** The store refused something of a kept job. */
  isHeld: boolean;
}

/**
 * Why the body of a kept job is aborted when the store takes no writes: the job was accepted, so it is gone on with
 * once they can be stored, as after the runner's end.
 */
export class JobHeld extends Error {
  override readonly name = 'JobHeld';
}

type State = 'queued' | 'running' | 'ending' | 'ended';

/** One job on its way from the queue to its one end: queued → running → ending → ended, or queued → ending → ended. */
export class JobRun {
  readonly jobId: number;
  readonly name: string;
  readonly owner: string;
  readonly weight: number;
  readonly maxRunSeconds: number;
  readonly deviceId: string;
  readonly #host: JobRunHost;
  readonly #takesDevice: boolean;
  /** When an earlier runner began it. */
  readonly #startedMs: number | undefined;
  readonly #body: JobBody | undefined;
  /** Its events say so already. */
  #toldStart: boolean;
  #queueTimer: NodeJS.Timeout | undefined;
  #recorder: JobRecorder | undefined;
  #running: Running | undefined;
  #state: State = 'queued';
  #stopCause: StopCause | undefined;
  /** What the body had found out when it came to no end. */
  #kept: JobResult | undefined;
  /** How long it has had its device, without the time since #deviceSinceMs. */
  #deviceMs = 0;
  #deviceSinceMs: number | undefined;
  #runTimer: NodeJS.Timeout | undefined;
  /** Another runner goes on with it. */
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

  /** How long it has had its device until a time of the clock that only grows. */
  deviceMs(elapsedMs: number): number {
    return this.#deviceMs + (this.#deviceSinceMs === undefined ? 0 : elapsedMs - this.#deviceSinceMs);
  }

  /** Its limits begin with its first device: what is waited for until then is the queue's. */
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

  /** Ends the job from outside; the first cause counts, and none does once the body has settled. */
  stop(cause: StopCause): void {
    if (this.#left || this.#stopCause || this.#state === 'ending' || this.#state === 'ended') return;
    if (cause.type === 'queue-limit' && this.#runTimer) return;
    this.#stopCause = cause;
    if (this.#state === 'queued') {
      this.#host.onLeftQueue(this);
      void this.#finish(endByStop(cause, 'queued'));
      return;
    }
    this.#running?.controller.abort(new DOMException(`The job was stopped: ${cause.type}`, 'AbortError'));
    this.#running?.stopped.resolve();
  }

  /** Leaves the job as it is stored, for a runner that goes on with it: nothing more of it is stored here. */
  leave(): void {
    this.#left = true;
    this.#leaveQueue();
    clearTimeout(this.#runTimer);
    this.#running?.controller.abort(new DOMException('Another runner goes on with the job', 'AbortError'));
    this.#running?.stopped.resolve();
  }

  /**
   * Runs the body on its device; resolves when the body has settled, that is, when the device is free. Never rejects.
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
          ? endByStop(this.#stopCause, 'running', found?.result)
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

  /** How the body ends; 'held': the store refused something, and it is to be run again. */
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

  /** Whether the job waits for the store: a kept one, whose request is carried out again from what is stored. */
  #hold(running: Running, error: unknown): boolean {
    if (this.#body || this.#stopCause || !isStorageFailure(error)) return false;
    running.isHeld = true;
    // What was not stored is told again by the body.
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
      // Bodies emit from event handlers too, where nothing would catch it and the daemon would end with all its jobs.
      this.failed(thrown);
    }
  }

  /** Stops the job, or holds a kept one up, because something of it could not be stored. */
  failed(thrown: unknown): void {
    this.#host.onStoreFailure(thrown);
    const running = this.#running;
    if (this.#state === 'running' && running && (running.isHeld || this.#hold(running, thrown))) return;
    this.stop({ type: 'failed', error: asFlashcoreError(thrown) });
  }

  /** Stores the job's end, again and again while the store takes no writes. */
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

  /** Why it could not be stored; undefined when it was. */
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
      // A result that can't be encoded would fail for ever: the job ends with the runner's own fault instead.
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
    `${name} is over, and its end is stored as soon as that is possible: then watch it again. ${message}`,
  );

/** What is left of a time that began then; a limit that passed while no runner was there counts at once. */
function leftMs(seconds: number, sinceMs: number | null | undefined): number {
  // A clock that was set back must not add to it.
  return Math.max(0, seconds * 1000 - (sinceMs == null ? 0 : Math.max(0, Date.now() - sinceMs)));
}
