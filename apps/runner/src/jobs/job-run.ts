import { create } from '@bufbuild/protobuf';
import {
  Outcome,
  JobFinishedSchema,
  JobStartedSchema,
  asFlashcoreError,
  type JobResult,
} from '@flashcore/shared/contract';
import { pause, within } from '../async.ts';
import type { Logger } from '../log.ts';
import type { PlannedJob, DeviceDescription, JobContext, JobOutcome, JobPayload } from './job-context.ts';
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

export interface JobRunOptions {
  jobId: number;
  name: string;
  /** The client whose job it is. */
  owner: string;
  /** Of the client: how much of a device counts as one second of it. */
  weight: number;
  planned: PlannedJob;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  /** Of a job that an earlier runner left: when it was made, and when it began to run, if it did. */
  before?: { createMs: number; startMs: number | null } | undefined;
  recorder: JobRecorder;
  logger: Logger;
  /** Stores that the job runs; part of a transaction. */
  markStarted: (startMs: number) => void;
  /** Stores the job's outcome; part of a transaction. */
  markEnded: (end: JobOutcome, times: EndTimes) => void;
  /** Told of errors that may say that the store takes no writes. */
  onStoreFailure: (thrown: unknown) => void;
  /** The job waits no longer: it was stopped while it was queued. */
  onLeftQueue: (run: JobRun) => void;
  nowMs: () => number;
}

/** When a job ended, and how long it had its device. */
export interface EndTimes {
  endMs: number;
  /** Undefined: not known. */
  deviceMs?: number;
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
  /** Resolves when the job's end is stored. */
  readonly ended: Promise<void>;
  readonly #options: JobRunOptions;
  readonly #controller = new AbortController();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<void>();
  readonly #queueTimer: NodeJS.Timeout;
  #state: State = 'queued';
  #stopCause: StopCause | undefined;
  /** What the body had found out when it came to no end. */
  #kept: JobResult | undefined;
  /** How long it has had its device, without the time since #deviceSinceMs. */
  #deviceMs = 0;
  #deviceSinceMs: number | undefined;

  constructor(options: JobRunOptions) {
    this.#options = options;
    this.jobId = options.jobId;
    this.name = options.name;
    this.owner = options.owner;
    this.weight = options.weight;
    this.maxRunSeconds = options.maxRunSeconds;
    this.deviceId = options.planned.deviceId;
    this.ended = this.#end.promise;
    this.#queueTimer = setTimeout(
      () => this.stop({ type: 'queue-limit', seconds: options.maxQueueSeconds, deviceId: this.deviceId }),
      leftMs(options.maxQueueSeconds, options.before?.createMs),
    );
  }

  get #nowMs(): () => number {
    return this.#options.nowMs;
  }

  get state(): State {
    return this.#state;
  }

  /** An earlier runner began it: its events say so already. */
  get #hasStarted(): boolean {
    return typeof this.#options.before?.startMs === 'number';
  }

  /** How long it has had its device until a time. */
  deviceMs(nowMs: number): number {
    return this.#deviceMs + (this.#deviceSinceMs === undefined ? 0 : nowMs - this.#deviceSinceMs);
  }

  #hasDevice(has: boolean): void {
    const now = this.#nowMs();
    this.#deviceMs = this.deviceMs(now);
    this.#deviceSinceMs = has ? now : undefined;
  }

  /** Ends the job from outside; the first cause counts, and none does once the body has settled. */
  stop(cause: StopCause): void {
    if (this.#stopCause || this.#state === 'ending' || this.#state === 'ended') return;
    if (cause.type === 'queue-limit' && this.#state !== 'queued') return;
    this.#stopCause = cause;
    if (this.#state === 'queued') {
      this.#options.onLeftQueue(this);
      void this.#finish(endByStop(cause, 'queued'));
      return;
    }
    this.#controller.abort(new DOMException(`The job was stopped: ${cause.type}`, 'AbortError'));
    this.#stopped.resolve();
  }

  /**
   * Runs the body on its device; resolves when the body has settled, that is, when the device is free. Never rejects.
   */
  async run(device: DeviceDescription): Promise<void> {
    clearTimeout(this.#queueTimer);
    this.#state = 'running';
    if (!this.#options.planned.takesDevice) this.#hasDevice(true);
    const body = this.#runBody(device);
    const end = await Promise.race([body, this.#stopped.promise.then(() => within(body, STOP_GRACE_MS))]);
    await this.#finish(
      this.#stopCause
        ? endByStop(this.#stopCause, 'running', end?.result)
        : (end ?? endByError(new Error('a body was given up without being stopped'))),
    );
    if (end === undefined)
      this.#options.logger.error(
        { job: this.name, device: device.deviceId },
        'the job did not stop; its device is held until it does',
      );
    await body;
    this.#hasDevice(false);
  }

  async #runBody(device: DeviceDescription): Promise<JobOutcome> {
    const limit = setTimeout(
      () => this.stop({ type: 'run-limit', seconds: this.#options.maxRunSeconds }),
      leftMs(this.#options.maxRunSeconds, this.#options.before?.startMs),
    );
    try {
      if (!this.#hasStarted)
        this.#options.recorder.record({ case: 'started', value: create(JobStartedSchema, { device }) }, () =>
          this.#options.markStarted(this.#nowMs()),
        );
      return await this.#options.planned.body(this.#context(device));
    } catch (thrown) {
      const error = asFlashcoreError(storageError(thrown, 'store what the job found'));
      this.#options.onStoreFailure(error);
      if (!this.#stopCause)
        this.#options.logger.warn(
          { job: this.name, reason: error.reason, ...error.metadata, err: thrown },
          'the job could not be carried out',
        );
      return endByError(error, this.#kept);
    } finally {
      clearTimeout(limit);
    }
  }

  #context(device: DeviceDescription): JobContext {
    return {
      name: this.name,
      owner: this.owner,
      signal: this.#controller.signal,
      device,
      emit: (payload, alongside) => this.#emit(payload, alongside),
      hasDevice: (has) => this.#hasDevice(has),
      keep: (found) => {
        this.#kept = found;
      },
    };
  }

  #emit(payload: JobPayload, alongside?: () => void): void {
    if (this.#state !== 'running') return;
    if (
      payload.case === 'created' ||
      payload.case === 'started' ||
      payload.case === 'finished' ||
      payload.case === undefined
    ) {
      throw new Error(`A body can't emit ${String(payload.case)}: that event is the queue's own`);
    }
    try {
      const { recorder } = this.#options;
      if (payload.case === 'logLine') recorder.recordLogLine(payload.value.source, payload.value.text, alongside);
      else recorder.record(payload, alongside);
    } catch (thrown) {
      // Bodies emit from event handlers too, where nothing would catch it and the daemon would end with all its jobs.
      this.failed(thrown);
    }
  }

  /** Stops the job because something of it could not be stored. */
  failed(thrown: unknown): void {
    this.#options.onStoreFailure(thrown);
    this.stop({ type: 'failed', error: asFlashcoreError(thrown) });
  }

  /** Stores the job's end, again and again while the store takes no writes. */
  async #finish(end: JobOutcome): Promise<void> {
    clearTimeout(this.#queueTimer);
    this.#state = 'ending';
    while (!this.#storeEnd(end)) await pause(STORE_AGAIN_MS);
    this.#state = 'ended';
    this.#end.resolve();
  }

  #storeEnd(end: JobOutcome): boolean {
    const { recorder, markEnded, logger } = this.#options;
    const { outcome, summary, result, error } = end;
    const now = this.#nowMs();
    try {
      recorder.record(
        { case: 'finished', value: create(JobFinishedSchema, { outcome, summary, result, ...(error && { error }) }) },
        () => markEnded(end, { endMs: now, deviceMs: this.deviceMs(now) }),
      );
      logger.info({ job: this.name, outcome: Outcome[outcome], summary }, 'job ended');
      return true;
    } catch (thrown) {
      const failure = asFlashcoreError(thrown);
      this.#options.onStoreFailure(failure);
      logger.error(
        { job: this.name, reason: failure.reason, ...failure.metadata, err: thrown },
        "the job's end could not be stored",
      );
      // A result that can't be encoded would fail for ever: the job ends with the runner's own fault instead.
      return isStorageFailure(failure) || end.error?.reason === 'INTERNAL'
        ? false
        : this.#storeEnd(endByError(failure));
    }
  }
}

/** What is left of a time that began then; a limit that passed while no runner was there counts at once. */
function leftMs(seconds: number, sinceMs: number | null | undefined): number {
  return Math.max(0, seconds * 1000 - (sinceMs == null ? 0 : Date.now() - sinceMs));
}
