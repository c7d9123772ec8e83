import { randomUUID } from 'node:crypto';
import { JobState, Outcome, FlashcoreError, type Job, type JobResult } from '@flashcore/shared/contract';
import { pause } from '../async.ts';
import type { Logger } from '../log.ts';
import { isStorageFailure } from '../store/storage-error.ts';
import type { WriteState } from '../store/write-state.ts';
import type { JobQuery, JobRow, Labels } from '../store/job-table.ts';
import { ActiveRuns } from './active-runs.ts';
import { requireRoom, requireShare, type OwnerShare } from './admission.ts';
import { DeviceQueues } from './device-queues.ts';
import type { WatchOptions } from './event-streams.ts';
import { processMs } from './fair-share.ts';
import type {
  ClientLoad,
  PlannedJob,
  DeviceDescription,
  DeviceLoad,
  JobMethod,
  JobPlanner,
  KeptRequest,
} from './job-context.ts';
import { JobRun, STOP_GRACE_MS, type JobRunHost, type JobRunOptions } from './job-run.ts';
import { recoverJobs } from './recovery.ts';
import { StoredJobs, jobMessage, type StoredJobsOptions } from './stored-jobs.ts';

/** Retry interval for a job that the store refused, if nothing reports whether the store takes writes. */
const TRY_AGAIN_MS = 1_000;

export interface JobsOptions extends Pick<StoredJobsOptions, 'database' | 'history' | 'cleanText'> {
  /** The host's devices, the default first. */
  devices: () => DeviceDescription[];
  /** How many jobs a device runs at the same time; default: one. */
  capacity?: ((deviceId: string) => number) | undefined;
  /**
   * Makes the body of a job whose request was kept, queued or running; default: running jobs of an earlier runner are
   * INTERRUPTED.
   */
  keptBody?: JobPlanner['keptBody'] | undefined;
  /** Makes the body of a job that an earlier runner left in the queue; default: such jobs are INTERRUPTED. */
  bodyAgain?: JobPlanner['bodyAgain'] | undefined;
  /** Whether jobs may start; startWaiting() must be called once they may. Default: always. */
  mayStart?: () => boolean;
  /** Maximum number of waiting jobs, over all devices. */
  maxQueued: number;
  logger: Logger;
  /** Called for each job that has ended. */
  onEnded?: ((name: string) => void) | undefined;
  /** The time of day; default: the machine's, which may be set back. */
  nowMs?: () => number;
  /** A monotonic clock in whole milliseconds; default: `nowMs` if given, else the process's clock. */
  elapsedMs?: () => number;
  /** Whether the store takes writes; default: always. */
  writes?: Pick<WriteState, 'failure' | 'failed' | 'onChange'>;
}

/** A request to start a job. */
export interface StartOptions extends OwnerShare {
  /** The client's id for the request; empty: always a new job. */
  requestId: string;
  /** Digest of method and body. */
  requestDigest: string;
  /** Whether the same request starts a new job if the runner's end interrupted the earlier job. */
  resumable?: boolean;
  /** Labels of the job. */
  labels: Labels;
  maxQueueSeconds: number;
  /** Checks the request and makes its job; not called for a repeated request. */
  plan: (load: DeviceLoad) => PlannedJob;
}

/** Statistics of the jobs and their events. */
export interface JobStatistics {
  waiting: number;
  running: number;
  watchers: number;
  /** Number of stored events that the slowest watcher has not received yet. */
  eventLag: number;
  /** Number of events stored since the runner's start. */
  eventsStored: number;
  /** Counts over all jobs in the store. */
  outcomes: { outcome: Outcome; count: number }[];
}

/** All jobs: started, watched, cancelled, looked up. Everything that a client knows about a job is on disk. */
export class Jobs {
  readonly #options: JobsOptions;
  readonly #nowMs: () => number;
  readonly #elapsedMs: () => number;
  readonly #stored: StoredJobs;
  readonly #queues: DeviceQueues;
  readonly #runs = new ActiveRuns();
  readonly #runHost: JobRunHost;
  #draining = false;
  #left = false;
  #recovered = false;
  /** Callbacks for when the store takes writes again. */
  readonly #onWritable: (() => void)[] = [];

  /** Also ends unfinished jobs of an earlier runner. */
  constructor(options: JobsOptions) {
    const { database, history, cleanText, devices, capacity, writes, nowMs = Date.now } = options;
    const { mayStart: isOpen = () => true } = options;
    const { elapsedMs = options.nowMs ?? processMs } = options;
    this.#options = options;
    this.#nowMs = nowMs;
    this.#elapsedMs = elapsedMs;
    const onFailure = (jobId: number, error: unknown): void => this.#runs.get(jobId)?.failed(error);
    this.#stored = new StoredJobs({ database, history, cleanText, onFailure, nowMs });
    const mayStart = (): boolean => isOpen() && !this.#left && writes?.failure === undefined;
    this.#queues = new DeviceQueues({ devices, capacity, mayStart, elapsedMs });
    this.#runHost = this.#hostOfRuns();
    writes?.onChange((writable) => {
      if (writable) this.#resume();
    });
    this.#recover();
  }

  /** Ends unfinished jobs of an earlier runner; if the store takes no writes, as soon as it does. */
  #recover(): void {
    if (this.#recovered) return;
    try {
      const recovered = recoverJobs({
        database: this.#options.database,
        table: this.#stored.table,
        log: this.#stored.log,
        markEnded: (row, end, endMs) => this.#stored.markEnded(row, end, { endMs }),
        takeUp: (row) => this.#takeUp(row),
      });
      this.#recovered = true;
      if (recovered > 0)
        this.#options.logger.warn({ jobs: recovered }, 'ended the jobs that an earlier runner left unfinished');
    } catch (error) {
      if (!this.#options.writes || !isStorageFailure(error)) throw error;
      this.#options.writes.failed(error);
    }
  }

  /** Resumes a kept job of an earlier runner; a job that was running gets its device without waiting. */
  #takeUp(row: JobRow): boolean {
    const { logger } = this.#options;
    const kept = this.#stored.table.keptRequest(row.id);
    const isActive = this.#runs.get(row.id) !== undefined;
    if (!kept || isActive) return isActive;
    try {
      const how = this.#howToResume(row, { method: kept.method as JobMethod, request: kept.request });
      if (!how) return false;
      const { id: jobId, name, owner, device_id: deviceId } = row;
      const queue = this.#queues.open(deviceId);
      const run = new JobRun({ ...kept, jobId, name, owner, deviceId, ...how }, this.#runHost);
      this.#runs.enter(run);
      if (row.state === JobState.RUNNING) queue.adopt(run);
      else queue.add(run);
      logger.info({ job: name, device: deviceId }, 'resuming a job from before the restart');
      return true;
    } catch (thrown) {
      logger.warn({ job: row.name, err: thrown }, 'a job from before the restart cannot be resumed');
      return false;
    }
  }

  /** How a job of an earlier runner goes on; undefined if it can't. A job that has its own body can only start once. */
  #howToResume(row: JobRow, kept: KeptRequest): Pick<JobRunOptions, 'body' | 'takesDevice' | 'before'> | undefined {
    const { keptBody, bodyAgain } = this.#options;
    const before = { createMs: row.create_ms, startMs: row.start_ms };
    if (keptBody) return { body: undefined, takesDevice: true, before };
    if (!bodyAgain || row.state !== JobState.QUEUED) return undefined;
    // Nothing is compiled ahead: if that is what killed the runner, every restart would end in the same way. The job
    // gets its whole queue limit again, because it may have waited all night for a runner.
    const body = bodyAgain(kept, { deviceId: row.device_id, codeDigest: row.code_digest });
    return { body, takesDevice: false };
  }

  #resume(): void {
    this.#recover();
    for (const goOn of this.#onWritable.splice(0)) goOn();
    this.startWaiting();
  }

  /** Resolves when the store may take writes again. */
  async #whenWritable(): Promise<void> {
    if (!this.#options.writes?.failure) return pause(TRY_AGAIN_MS);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onWritable.push(resolve);
    return promise;
  }

  /** Why nothing can be stored; undefined if the store takes writes. */
  get storeFailure(): FlashcoreError | undefined {
    return this.#options.writes?.failure;
  }

  /** Starts the jobs whose devices now have room. */
  startWaiting(): void {
    this.#queues.resume();
  }

  /** Number of jobs that wait for a device. */
  waitingFor(deviceId: string): number {
    return this.#queues.get(deviceId)?.length ?? 0;
  }

  /** Each client's use of a device, the next client first. */
  clientsOf(deviceId: string): ClientLoad[] {
    return this.#queues.clientsOf(deviceId);
  }

  /** Number of waiting and running jobs. */
  get active(): number {
    return this.#runs.size;
  }

  /** When the oldest unfinished job was created; undefined if all have ended. */
  get oldestActiveMs(): number | undefined {
    return this.#stored.table.oldestUnfinishedMs();
  }

  statistics(): JobStatistics {
    const { streams, log, table } = this.#stored;
    return {
      waiting: this.#runs.countOf('queued'),
      running: this.#runs.countOf('running'),
      ...streams.statistics(),
      eventsStored: log.stored,
      outcomes: table.countOutcomes(),
    };
  }

  /** The devices with the state that jobs give them. */
  devices(): DeviceDescription[] {
    return this.#queues.devices();
  }

  /**
   * Stores and queues a job, or returns the job that the same request started before. Errors: REQUEST_ID_REUSED,
   * DRAINING, QUEUE_FULL, QUOTA_EXCEEDED, DEVICE_UNAVAILABLE, DISK_FULL, and those of plan().
   */
  start(options: StartOptions): Job {
    const before = this.#findRepeated(options);
    if (before && !goesOn(before, options)) return this.#message(before);
    if (this.#options.writes?.failure) throw this.#options.writes.failure;
    requireRoom({
      draining: this.#draining,
      waiting: this.#queues.waiting,
      maxQueued: this.#options.maxQueued,
    });
    requireShare(options, {
      jobs: this.#runs.ofOwner(options.owner),
      usedSeconds: (sinceMs) => this.#stored.table.deviceSeconds(options.owner, sinceMs),
    });
    const planned = options.plan((deviceId) => this.#queues.get(deviceId)?.jobs ?? 0);
    const queue = this.#queues.open(planned.deviceId);
    const run = this.#accept(options, planned, before);
    this.#options.logger.info(
      { job: run.name, label: planned.label, device: planned.deviceId, owner: options.owner },
      'job accepted',
    );
    this.#runs.enter(run);
    queue.add(run);
    return this.get(run.name).job;
  }

  /** A job and, once it has ended, its result. Errors: JOB_NOT_FOUND. */
  get(name: string): { job: Job; result?: JobResult } {
    const row = this.#stored.find(name);
    if (row.state !== JobState.ENDED) return { job: this.#message(row) };
    const result = this.#stored.resultOf(row);
    return { job: this.#message(row), ...(result && { result }) };
  }

  /** A job that has ended, with its number in the store. Errors: JOB_NOT_FOUND, NOT_ACCEPTABLE if it has not ended. */
  ended(name: string): { id: number; job: Job; result: JobResult | undefined } {
    const row = this.#stored.find(name);
    if (row.state === JobState.ENDED)
      return { id: row.id, job: this.#message(row), result: this.#stored.resultOf(row) };
    throw new FlashcoreError('NOT_ACCEPTABLE', { job: name }, `${name} has not ended: wait for its end, then decide`);
  }

  /** The job with a number in the store. Errors: JOB_NOT_FOUND. */
  byId(id: number): Job {
    return this.#message(this.#stored.byId(id));
  }

  /** Jobs, newest first, with the id for the next page. */
  list(query: JobQuery): { id: number; job: Job }[] {
    return this.#stored.table.list(query).map((row) => ({ id: row.id, job: this.#message(row) }));
  }

  /**
   * A job's events after a number, as EventStreams yields them. Errors: JOB_NOT_FOUND, EVENTS_EXPIRED, INVALID_REQUEST
   * for a number not reached yet.
   */
  async *watch(name: string, options: WatchOptions): AsyncGenerator<Uint8Array[]> {
    yield* this.#stored.streams.watch(this.#stored.find(name), options);
  }

  /** Ends a job; a job that has ended stays unchanged. `by` is the client to name. Errors: JOB_NOT_FOUND. */
  cancel(name: string, by?: string): Job {
    const { id } = this.#stored.find(name);
    this.#runs.get(id)?.stop({ type: 'cancelled', by });
    return this.get(name).job;
  }

  /**
   * Accepts no new job, ends the waiting ones, and gives the running ones `graceMs` to end. Resolves when all have
   * ended or the time is up.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    for (const run of this.#runs.all()) if (run.state === 'queued') run.stop({ type: 'runner-stopped' });
    await this.#runs.allEnded(graceMs);
    this.stopAll();
    await this.#runs.allEnded(STOP_GRACE_MS + 1_000);
  }

  /** Leaves all stored jobs to another runner. */
  leave(): void {
    this.#draining = true;
    this.#left = true;
    for (const run of this.#runs.all()) run.leave();
  }

  /** Stops all jobs at the end of the runner, without a grace period. */
  stopAll(): void {
    this.#draining = true;
    for (const run of this.#runs.all()) run.stop({ type: 'runner-stopped' });
  }

  #findRepeated({ owner, requestId, requestDigest }: StartOptions): JobRow | undefined {
    const row = requestId ? this.#stored.table.byRequestId(owner, requestId) : undefined;
    if (!row || row.request_digest === requestDigest) return row;
    throw new FlashcoreError(
      'REQUEST_ID_REUSED',
      { request_id: requestId, job: row.name },
      `The request_id ${requestId} was used for ${row.name}, with another method or body: make a new one for a new request`,
    );
  }

  /** Stores the job. Errors: DISK_FULL. */
  #accept(options: StartOptions, planned: PlannedJob, interrupted: JobRow | undefined): JobRun {
    const { owner, weight = 1, maxQueueSeconds, maxRunSeconds } = options;
    const { deviceId, body } = planned;
    const name = `jobs/${randomUUID()}`;
    // The job is not in the queue yet, so every queued job comes before it.
    const ahead = this.#queues.get(deviceId)?.positionOfNext({ owner, weight }) ?? 0;
    const jobId = this.#noting(() => this.#stored.add({ ...options, name, planned, weight, ahead, interrupted }));
    // Made after the commit: a rolled-back job must leave no timer behind, because its id goes to the next job.
    const takesDevice = body ? (planned.takesDevice ?? false) : true;
    return new JobRun(
      {
        jobId,
        name,
        owner,
        weight,
        deviceId,
        body,
        takesDevice,
        compileAhead: planned.body && planned.compileAhead,
        maxQueueSeconds,
        maxRunSeconds,
      },
      this.#runHost,
    );
  }

  #hostOfRuns(): JobRunHost {
    const { logger, keptBody, writes, onEnded } = this.#options;
    const { table } = this.#stored;
    return {
      logger,
      recorderOf: ({ jobId }) => this.#stored.recorderOf(this.#stored.byId(jobId)),
      keptBodyOf: ({ jobId, deviceId }) => {
        const { method, request } = table.keptRequest(jobId)!;
        return keptBody!({ method: method as JobMethod, request }, deviceId);
      },
      markStarted: ({ jobId }, startMs) => table.markStarted(jobId, startMs),
      markEnded: ({ jobId }, end, times) => this.#stored.markEnded(this.#stored.byId(jobId), end, times),
      onStoreFailure: (thrown) => writes?.failed(thrown),
      whenWritable: () => this.#whenWritable(),
      onLeftQueue: (run) => this.#queues.get(run.deviceId)?.remove(run),
      onEndHeld: ({ jobId }, error) => this.#stored.streams.hold(jobId, error),
      onEnded: (run) => {
        this.#stored.streams.release(run.jobId);
        this.#runs.remove(run);
        onEnded?.(run.name);
      },
      nowMs: this.#nowMs,
      elapsedMs: this.#elapsedMs,
    };
  }

  /** Runs work that writes to the store, and reports a failure to the store's guard. */
  #noting<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      this.#options.writes?.failed(error);
      throw error;
    }
  }

  #message(row: JobRow): Job {
    const run = this.#runs.get(row.id);
    return jobMessage(row, run && this.#queues.position(run));
  }
}

/** Whether a repeated request's job was interrupted by the runner's end and should run again. */
const goesOn = ({ outcome }: JobRow, { resumable = false }: StartOptions): boolean =>
  resumable && outcome === Outcome.INTERRUPTED;
