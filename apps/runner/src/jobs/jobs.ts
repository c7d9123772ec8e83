import { randomUUID } from 'node:crypto';
import { create, fromBinary } from '@bufbuild/protobuf';
import {
  DeviceState,
  JobKind,
  JobState,
  Outcome,
  FlashcoreError,
  JobCreatedSchema,
  JobEventSchema,
  invalidRequest,
  type CleanText,
  type Job,
  type JobResult,
} from '@flashcore/shared/contract';
import { didYouMean, plainText } from '@flashcore/shared/text';
import { endsWithin } from '../async.ts';
import type { Logger } from '../log.ts';
import type { Database } from '../store/database.ts';
import { EventLog } from '../store/event-log.ts';
import { isStorageFailure } from '../store/storage-error.ts';
import type { WriteState } from '../store/write-state.ts';
import type { HistoryStore } from '../store/history.ts';
import { labelsText, type Labels } from '../store/labels.ts';
import { JobTable, type JobQuery, type JobRow } from '../store/job-table.ts';
import { requireRoom, requireShare, type OwnerShare, type OwnJobs } from './admission.ts';
import { DeviceQueue } from './device-queue.ts';
import { EventStreams, type WatchOptions } from './event-streams.ts';
import type {
  ClientLoad,
  PlannedJob,
  DeviceDescription,
  DeviceLoad,
  JobMethod,
  JobOutcome,
  JobPlanner,
} from './job-context.ts';
import { jobMessage } from './job-message.ts';
import { JobRecorder } from './job-recorder.ts';
import { JobRun, STOP_GRACE_MS, type EndTimes, type JobRunHost } from './job-run.ts';
import { recoverJobs } from './recovery.ts';

export interface JobsOptions {
  database: Database;
  history: HistoryStore;
  /** The host's devices, the default first. */
  devices: () => DeviceDescription[];
  /** Jobs that a device runs side by side; default: one. */
  capacity?: ((deviceId: string) => number) | undefined;
  /** The body of a job whose request was kept; default: none is, and jobs that a runner left are INTERRUPTED. */
  keptBody?: JobPlanner['keptBody'] | undefined;
  /** Most jobs that wait at once, over all devices. */
  maxQueued: number;
  logger: Logger;
  /** What is taken out of all texts of events. */
  cleanText?: CleanText;
  /** Told of each job that has ended. */
  onEnded?: ((name: string) => void) | undefined;
  nowMs?: () => number;
  /** Whether the store takes writes; default: always. */
  writes?: Pick<WriteState, 'failure' | 'failed' | 'onChange'>;
}

/** A request to start a job. */
export interface StartOptions extends OwnerShare {
  /** The client's id for the request; empty: always a new job. */
  requestId: string;
  /** Of method and body. */
  requestDigest: string;
  /** Whether the same request makes another job where the runner's end cut the former off. */
  resumable?: boolean;
  /** Labels of the job. */
  labels: Labels;
  maxQueueSeconds: number;
  /** Checks the request and makes its job; not called for a request that was made before. */
  plan: (load: DeviceLoad) => PlannedJob;
}

/** What a job keeps of its request. */
type Identity = Pick<StartOptions, 'requestId' | 'requestDigest' | 'owner' | 'labels'> & { weight: number };

const NO_JOBS: OwnJobs = { count: 0, promisedSeconds: 0 };

/** What goes on, in numbers. */
export interface JobStatistics {
  waiting: number;
  running: number;
  watchers: number;
  /** Events stored that the slowest watcher was not sent yet. */
  eventLag: number;
  /** Since the start. */
  eventsStored: number;
  /** Of all jobs in the store. */
  outcomes: { outcome: Outcome; count: number }[];
}

/** All jobs: started, watched, cancelled, found again. What was said to a client about a job is on disk. */
export class Jobs {
  readonly #options: JobsOptions;
  readonly #table: JobTable;
  readonly #log: EventLog;
  readonly #streams: EventStreams;
  readonly #queues = new Map<string, DeviceQueue>();
  readonly #runs = new Map<number, JobRun>();
  readonly #byOwner = new Map<string, OwnJobs>();
  readonly #runHost: JobRunHost;
  /** Told when no job waits or runs. */
  #onIdle: (() => void) | undefined;
  readonly #nowMs: () => number;
  #draining = false;
  #left = false;
  #recovered = false;

  /** Also ends the jobs that an earlier runner left unfinished. */
  constructor(options: JobsOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#table = new JobTable(options.database);
    this.#log = new EventLog(options.database);
    this.#streams = new EventStreams(this.#table, this.#log);
    this.#runHost = this.#hostOfRuns(options.logger);
    options.writes?.onChange((writable) => {
      if (writable) this.#resume();
    });
    this.#recover();
  }

  /** Ends what an earlier runner left unfinished; where the store takes no writes, once it does. */
  #recover(): void {
    if (this.#recovered) return;
    try {
      const recovered = recoverJobs({
        database: this.#options.database,
        table: this.#table,
        log: this.#log,
        markEnded: (row, end, endMs) => this.#markEnded(row, end, { endMs }),
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

  /** Goes on with a job that an earlier runner left, where it was kept; one that ran has its place without waiting. */
  #takeUp(row: JobRow): boolean {
    const { keptBody, logger } = this.#options;
    const kept = this.#table.keptRequest(row.id);
    if (!kept || !keptBody || this.#runs.has(row.id)) return this.#runs.has(row.id);
    try {
      const { id: jobId, name, owner, device_id: deviceId } = row;
      const queue = this.#queueOf(deviceId);
      const before = { createMs: row.create_ms, startMs: row.start_ms };
      const run = new JobRun(
        { ...kept, jobId, name, owner, deviceId, body: undefined, takesDevice: true, before },
        this.#runHost,
      );
      this.#enter(run);
      if (row.state === JobState.RUNNING) queue.adopt(run);
      else queue.add(run);
      logger.info({ job: name, device: deviceId }, 'goes on with a job of before');
      return true;
    } catch (thrown) {
      logger.warn({ job: row.name, err: thrown }, 'a job of before can not go on');
      return false;
    }
  }

  #resume(): void {
    this.#recover();
    this.startWaiting();
  }

  /** Starts the jobs whose devices have room for them now. */
  startWaiting(): void {
    for (const queue of this.#queues.values()) queue.resume();
  }

  /** Jobs that wait for a device. */
  waitingFor(deviceId: string): number {
    return this.#queues.get(deviceId)?.length ?? 0;
  }

  /** Who has what of a device, the next one first. */
  clientsOf(deviceId: string): ClientLoad[] {
    return this.#queues.get(deviceId)?.clients() ?? [];
  }

  /** Jobs waiting and running. */
  get active(): number {
    return this.#runs.size;
  }

  /** When the oldest job that has not ended was made; undefined when all have. */
  get oldestActiveMs(): number | undefined {
    return this.#table.oldestUnfinishedMs();
  }

  statistics(): JobStatistics {
    const states = [...this.#runs.values()].map(({ state }) => state);
    return {
      waiting: states.filter((state) => state === 'queued').length,
      running: states.filter((state) => state === 'running').length,
      ...this.#streams.statistics(),
      eventsStored: this.#log.stored,
      outcomes: this.#table.countOutcomes(),
    };
  }

  /** The devices with the state that jobs give them. */
  devices(): DeviceDescription[] {
    return this.#options.devices().map((device) => this.#queues.get(device.deviceId)?.device() ?? device);
  }

  /**
   * Stores and queues a job, or gives the one that the same request made before. Errors: REQUEST_ID_REUSED, DRAINING,
   * QUEUE_FULL, QUOTA_EXCEEDED, DEVICE_UNAVAILABLE, DISK_FULL, and those of plan().
   */
  start(options: StartOptions): Job {
    const before = this.#findRepeated(options);
    if (before && !goesOn(before, options)) return this.#message(before);
    if (this.#options.writes?.failure) throw this.#options.writes.failure;
    requireRoom({
      draining: this.#draining,
      waiting: [...this.#queues.values()].reduce((sum, queue) => sum + queue.length, 0),
      maxQueued: this.#options.maxQueued,
    });
    requireShare(options, {
      jobs: this.#byOwner.get(options.owner) ?? NO_JOBS,
      usedSeconds: (sinceMs) => this.#table.deviceSeconds(options.owner, sinceMs),
    });
    const planned = options.plan((deviceId) => this.#queues.get(deviceId)?.jobs ?? 0);
    const queue = this.#queueOf(planned.deviceId);
    const run = this.#accept(options, planned, before);
    this.#options.logger.info(
      { job: run.name, label: planned.label, device: planned.deviceId, owner: options.owner },
      'job accepted',
    );
    this.#enter(run);
    queue.add(run);
    return this.get(run.name).job;
  }

  #enter(run: JobRun): void {
    this.#runs.set(run.jobId, run);
    const { count, promisedSeconds } = this.#byOwner.get(run.owner) ?? NO_JOBS;
    this.#byOwner.set(run.owner, { count: count + 1, promisedSeconds: promisedSeconds + run.maxRunSeconds });
  }

  #forget(run: JobRun): void {
    this.#runs.delete(run.jobId);
    const { count, promisedSeconds } = this.#byOwner.get(run.owner)!;
    if (count === 1) this.#byOwner.delete(run.owner);
    else this.#byOwner.set(run.owner, { count: count - 1, promisedSeconds: promisedSeconds - run.maxRunSeconds });
    if (this.#runs.size === 0) this.#onIdle?.();
  }

  /** A job and, once it has ended, its result. Errors: JOB_NOT_FOUND. */
  get(name: string): { job: Job; result?: JobResult } {
    const row = this.#find(name);
    if (row.state !== JobState.ENDED) return { job: this.#message(row) };
    const result = this.#resultOf(row);
    return { job: this.#message(row), ...(result && { result }) };
  }

  /** A job that has ended, with its number in the store. Errors: JOB_NOT_FOUND, NOT_ACCEPTABLE for one that goes on. */
  ended(name: string): { id: number; job: Job; result: JobResult | undefined } {
    const row = this.#find(name);
    if (row.state === JobState.ENDED) return { id: row.id, job: this.#message(row), result: this.#resultOf(row) };
    throw new FlashcoreError('NOT_ACCEPTABLE', { job: name }, `${name} has not ended: wait for its end, then decide`);
  }

  /** The job that the store knows by a number. Errors: JOB_NOT_FOUND. */
  byId(id: number): Job {
    const row = this.#table.byId(id);
    return row ? this.#message(row) : jobNotFound(String(id));
  }

  /** Jobs, newest first, with the id to continue before. */
  list(query: JobQuery): { id: number; job: Job }[] {
    return this.#table.list(query).map((row) => ({ id: row.id, job: this.#message(row) }));
  }

  /**
   * The events of a job after a number, as EventStreams gives them. Errors: JOB_NOT_FOUND, EVENTS_EXPIRED,
   * INVALID_REQUEST for a number not reached yet.
   */
  async *watch(name: string, options: WatchOptions): AsyncGenerator<Uint8Array[]> {
    yield* this.#streams.watch(this.#find(name), options);
  }

  /** Ends a job; one that has ended stays as it is. Errors: JOB_NOT_FOUND. */
  cancel(name: string): Job {
    const { id } = this.#find(name);
    this.#runs.get(id)?.stop({ type: 'cancelled' });
    return this.get(name).job;
  }

  /**
   * Takes no new job, ends those that wait, and gives the running ones some time to end. Resolves when all have ended,
   * or have had their time.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    for (const run of this.#runs.values()) if (run.state === 'queued') run.stop({ type: 'runner-stopped' });
    await this.#allEnded(graceMs);
    this.stopAll();
    await this.#allEnded(STOP_GRACE_MS + 1_000);
  }

  /** Leaves all jobs as they are stored, for a runner that goes on with them. */
  leave(): void {
    this.#draining = true;
    this.#left = true;
    for (const run of this.#runs.values()) run.leave();
  }

  /** Ends all jobs as the runner ends, without more grace. */
  stopAll(): void {
    this.#draining = true;
    for (const run of this.#runs.values()) run.stop({ type: 'runner-stopped' });
  }

  async #allEnded(withinMs: number): Promise<void> {
    if (this.#runs.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    await endsWithin(promise, withinMs);
  }

  #findRepeated({ owner, requestId, requestDigest }: StartOptions): JobRow | undefined {
    const row = requestId ? this.#table.byRequestId(owner, requestId) : undefined;
    if (!row || row.request_digest === requestDigest) return row;
    throw new FlashcoreError(
      'REQUEST_ID_REUSED',
      { request_id: requestId, job: row.name },
      `The request_id ${requestId} was used for ${row.name}, with another method or body: make a new one for a new request`,
    );
  }

  #queueOf(deviceId: string): DeviceQueue {
    const device = this.#options.devices().find((one) => one.deviceId === deviceId);
    if (!device) {
      const ids = this.#options.devices().map((one) => one.deviceId);
      throw invalidRequest({
        field: 'options.device_id',
        description: `must name a device of this host (${ids.join(', ')}), is "${deviceId}"${didYouMean(deviceId, ids)}`,
      });
    }
    const queue =
      this.#queues.get(deviceId) ??
      new DeviceQueue({
        describe: () => this.#options.devices().find((one) => one.deviceId === deviceId) ?? device,
        mayStart: () => !this.#left && this.#options.writes?.failure === undefined,
        capacity: this.#options.capacity && (() => this.#options.capacity!(deviceId)),
        nowMs: this.#nowMs,
      });
    this.#queues.set(deviceId, queue);
    const { state, stateReason } = queue.device();
    if (state !== DeviceState.QUARANTINED) return queue;
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: deviceId },
      `${deviceId} is quarantined, ${stateReason ?? 'and nobody knows why'}: use another device, or restart the runner`,
    );
  }

  /**
   * Stores the job and its first event in one transaction, in which the request_id leaves the job that this one goes on
   * with: one that is refused leaves all as it was.
   */
  #accept(
    { requestId, requestDigest, owner, weight = 1, labels, maxQueueSeconds, maxRunSeconds }: StartOptions,
    planned: PlannedJob,
    interrupted: JobRow | undefined,
  ): JobRun {
    const { database } = this.#options;
    const name = `jobs/${randomUUID()}`;
    const { deviceId, body, kept } = planned;
    const jobId = this.#noting(() =>
      database.transaction(() => {
        if (interrupted) this.#table.releaseRequestId(interrupted.id);
        const identity = { requestId, requestDigest, owner, weight, labels };
        const id = this.#store(name, identity, planned);
        if (kept) this.#table.keepRequest(id, { ...kept, weight, maxQueueSeconds, maxRunSeconds });
        return id;
      }),
    );
    // Made once the commit has succeeded: a job that was undone must leave no timer behind, because its id is given to
    // the next.
    const takesDevice = planned.body ? (planned.takesDevice ?? false) : true;
    return new JobRun(
      { jobId, name, owner, weight, deviceId, body, takesDevice, maxQueueSeconds, maxRunSeconds },
      this.#runHost,
    );
  }

  #hostOfRuns(logger: Logger): JobRunHost {
    return {
      logger,
      recorderOf: ({ jobId, name }) => this.#recorderOf(jobId, name, this.#table.byId(jobId)!.last_sequence),
      keptBodyOf: ({ jobId, deviceId }) => {
        const { method, request } = this.#table.keptRequest(jobId)!;
        return this.#options.keptBody!({ method: method as JobMethod, request }, deviceId);
      },
      markStarted: ({ jobId }, startMs) => this.#table.markStarted(jobId, startMs),
      markEnded: ({ jobId }, end, times) => this.#markEnded(this.#table.byId(jobId)!, end, times),
      onStoreFailure: (thrown) => this.#options.writes?.failed(thrown),
      onLeftQueue: (run) => this.#queues.get(run.deviceId)?.remove(run),
      onEnded: (run) => {
        this.#forget(run);
        this.#options.onEnded?.(run.name);
      },
      nowMs: this.#nowMs,
    };
  }

  #store(name: string, { requestId, requestDigest, owner, weight, labels }: Identity, planned: PlannedJob): number {
    const jobId = this.#table.insert({
      name,
      kind: planned.kind,
      label: planned.label,
      kernel_id: planned.kernelId,
      device_id: planned.deviceId,
      request_id: requestId || null,
      request_digest: requestId ? requestDigest : null,
      create_ms: this.#nowMs(),
      owner,
      labels: labelsText(labels),
    });
    const recorder = this.#recorderOf(jobId, name, 0);
    // It is not in the queue yet: all that are there come before it.
    const ahead = this.#queues.get(planned.deviceId)?.positionOfNext({ owner, weight }) ?? 0;
    recorder.record({ case: 'created', value: create(JobCreatedSchema, { job: jobMessage(this.#find(name), ahead) }) });
    return jobId;
  }

  #recorderOf(jobId: number, jobName: string, lastSequence: number): JobRecorder {
    return new JobRecorder({
      database: this.#options.database,
      log: this.#log,
      feed: this.#streams.feed,
      jobId,
      jobName,
      lastSequence,
      cleanText: this.#options.cleanText,
      onStored: (events) => this.#streams.stored(events),
      onFailure: (error) => this.#runs.get(jobId)?.failed(error),
    });
  }

  /** Does what stores something, and tells the store's guard when that fails. */
  #noting<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      this.#options.writes?.failed(error);
      throw error;
    }
  }

  #markEnded(
    { id: jobId, name: jobName, kind, kernel_id: kernelId }: JobRow,
    { outcome, summary, result }: JobOutcome,
    { endMs, deviceMs }: EndTimes,
  ): void {
    this.#table.markEnded(jobId, { outcome, summary: this.#cleanText(summary), endMs, deviceMs });
    if (kind === JobKind.EXPERIMENT) this.#options.history.record({ jobId, jobName, kernelId, outcome, endMs, result });
    this.#options.history.recordSdpa({ jobId, jobName, endMs, result });
  }

  readonly #cleanText = (text: string): string => (this.#options.cleanText ?? plainText)(text);

  #find(name: string): JobRow {
    return this.#table.byName(name) ?? jobNotFound(name);
  }

  #message(row: JobRow): Job {
    const run = this.#runs.get(row.id);
    return jobMessage(row, run ? this.#queues.get(run.deviceId)?.position(run) : 0);
  }

  /** The result stands in the job's last event. */
  #resultOf(row: JobRow): JobResult | undefined {
    const last = this.#log.read(row.id, row.last_sequence);
    const payload = last && fromBinary(JobEventSchema, last.event).payload;
    return payload?.case === 'finished' ? payload.value.result : undefined;
  }
}

/** Whether the job that a request made before is one that the runner's end cut off, and that is to go on. */
const goesOn = ({ outcome }: JobRow, { resumable = false }: StartOptions): boolean =>
  resumable && outcome === Outcome.INTERRUPTED;

function jobNotFound(name: string): never {
  throw new FlashcoreError('JOB_NOT_FOUND', { name }, `Unknown job "${name}": name one that ListJobs gives`);
}
