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
import { BATCH_EVENTS, damaged, EventLog } from '../store/event-log.ts';
import { isStorageFailure } from '../store/storage-error.ts';
import type { WriteState } from '../store/write-state.ts';
import type { HistoryStore } from '../store/history.ts';
import { labelsText, type Labels } from '../store/labels.ts';
import { JobTable, type JobQuery, type JobRow } from '../store/job-table.ts';
import { DeviceQueue } from './device-queue.ts';
import { EventFeed } from './event-feed.ts';
import type { PlannedJob, DeviceDescription, DeviceLoad, JobOutcome } from './job-context.ts';
import { jobMessage } from './job-message.ts';
import { JobRecorder } from './job-recorder.ts';
import { JobRun, STOP_GRACE_MS } from './job-run.ts';
import { recoverJobs } from './recovery.ts';
import { StreamShare } from './stream-share.ts';

/** When to try again after QUEUE_FULL: about what a short job takes. */
const RETRY_AFTER_SECONDS = 5;
const DAY_MS = 24 * 3_600_000;
/** Device time comes back as the day moves on. */
const DEVICE_TIME_RETRY_SECONDS = 600;

export interface JobsOptions {
  database: Database;
  history: HistoryStore;
  /** The host's devices, the default first. */
  devices: () => DeviceDescription[];
  /** Most jobs that wait at once, over all devices. */
  maxQueued: number;
  logger: Logger;
  /** What is taken out of all texts of events. */
  cleanText?: CleanText;
  /** Told of each job that has ended. */
  onEnded?: ((name: string) => void) | undefined;
  /** Whether the store takes writes; default: always. */
  writes?: Pick<WriteState, 'failure' | 'failed' | 'onChange'>;
}

/** A request to start a job. */
export interface StartOptions {
  /** The client's id for the request; empty: always a new job. */
  requestId: string;
  /** Of method and body. */
  requestDigest: string;
  /** Name of the client. */
  owner: string;
  /** Whether the same request makes another job where the runner's end cut the former off. */
  resumable?: boolean;
  /** Labels of the job. */
  labels: Labels;
  /** Most jobs of this owner that may wait and run at once; undefined: no limit but the queue's. */
  maxJobsOfOwner: number | undefined;
  /** Most seconds of devices in a day for this owner's jobs; undefined: no limit. */
  maxDeviceSecondsOfOwner?: number | undefined;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  /** Checks the request and makes its job; not called for a request that was made before. */
  plan: (load: DeviceLoad) => PlannedJob;
}

/** A stream of a job's events, and how far it has got. */
interface Watcher {
  readonly jobId: number;
  sequence: number;
}

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
  readonly #feed = new EventFeed();
  readonly #share = new StreamShare();
  readonly #queues = new Map<string, DeviceQueue>();
  readonly #runs = new Map<number, JobRun>();
  readonly #watchers = new Set<Watcher>();
  #draining = false;
  #recovered = false;

  /** Also ends the jobs that an earlier runner left unfinished. */
  constructor(options: JobsOptions) {
    this.#options = options;
    this.#table = new JobTable(options.database);
    this.#log = new EventLog(options.database);
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
        markEnded: (row, end, endMs) =>
          this.#markEnded(row.id, row.name, { kind: row.kind, kernelId: row.kernel_id }, end, endMs),
      });
      this.#recovered = true;
      if (recovered > 0)
        this.#options.logger.warn({ jobs: recovered }, 'ended the jobs that an earlier runner left unfinished');
    } catch (error) {
      if (!this.#options.writes || !isStorageFailure(error)) throw error;
      this.#options.writes.failed(error);
    }
  }

  #resume(): void {
    this.#recover();
    for (const queue of this.#queues.values()) queue.resume();
  }

  /** Jobs waiting and running. */
  get active(): number {
    return this.#runs.size;
  }

  /** When the oldest job that has not ended was made; undefined when all have. */
  get oldestActiveMs(): number | undefined {
    const [row] = this.#table.unfinished();
    return row?.create_ms;
  }

  statistics(): JobStatistics {
    const states = [...this.#runs.values()].map(({ state }) => state);
    const lags = [...this.#watchers].map(
      ({ jobId, sequence }) => (this.#table.byId(jobId)?.last_sequence ?? sequence) - sequence,
    );
    return {
      waiting: states.filter((state) => state === 'queued').length,
      running: states.filter((state) => state === 'running').length,
      watchers: this.#watchers.size,
      eventLag: Math.max(0, ...lags),
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
    this.#refuseWhenFull();
    this.#refuseOverQuota(options);
    const planned = options.plan((deviceId) => this.#queues.get(deviceId)?.jobs ?? 0);
    const queue = this.#queueOf(planned.deviceId);
    const run = this.#accept(options, planned, before);
    this.#options.logger.info(
      { job: run.name, label: planned.label, device: planned.deviceId, owner: options.owner },
      'job accepted',
    );
    this.#runs.set(run.jobId, run);
    void run.ended.then(() => {
      this.#runs.delete(run.jobId);
      this.#options.onEnded?.(run.name);
    });
    queue.add(run);
    return this.get(run.name).job;
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
    throw new FlashcoreError(
      'NOT_ACCEPTABLE',
      { job: name },
      `Wait for the end of ${name}, then decide: it has not ended`,
    );
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
   * The events of a job after a number (JobEvent in protobuf's binary form), in batches, then those to come, until the
   * job's end. They are read from the
   * log when the reader asks, so that a slow one costs no memory. Errors: JOB_NOT_FOUND, EVENTS_EXPIRED,
   * INVALID_REQUEST for a number not reached yet.
   */
  async *watch(
    name: string,
    { afterSequence, signal }: { afterSequence: number; signal: AbortSignal },
  ): AsyncGenerator<Uint8Array[]> {
    const row = this.#find(name);
    checkAfterSequence(row, afterSequence);
    const watcher = { jobId: row.id, sequence: afterSequence };
    this.#watchers.add(watcher);
    try {
      yield* this.#eventsFor(watcher, signal);
    } finally {
      this.#watchers.delete(watcher);
    }
  }

  async *#eventsFor(watcher: Watcher, signal: AbortSignal): AsyncGenerator<Uint8Array[]> {
    const { jobId } = watcher;
    const turn = this.#share.watcher(BATCH_EVENTS);
    while (!signal.aborted) {
      const batch = this.#log.readAfter(jobId, watcher.sequence, await turn());
      const last = batch.at(-1);
      if (last) {
        yield batch.map(({ event }) => event);
        watcher.sequence = last.sequence;
      } else if (this.#table.hasEnded(jobId)) {
        // Rather an error than a shorter history that looks whole.
        const { last_sequence: expected } = this.#table.byId(jobId)!;
        if (watcher.sequence !== expected) throw damaged(jobId, watcher.sequence + 1);
        return;
      } else {
        await this.#feed.next(jobId, signal);
      }
    }
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

  /** Ends all jobs as the runner ends, without more grace. */
  stopAll(): void {
    this.#draining = true;
    for (const run of this.#runs.values()) run.stop({ type: 'runner-stopped' });
  }

  async #allEnded(withinMs: number): Promise<void> {
    await endsWithin(Promise.all([...this.#runs.values()].map((run) => run.ended)), withinMs);
  }

  #findRepeated({ owner, requestId, requestDigest }: StartOptions): JobRow | undefined {
    const row = requestId ? this.#table.byRequestId(owner, requestId) : undefined;
    if (!row || row.request_digest === requestDigest) return row;
    throw new FlashcoreError(
      'REQUEST_ID_REUSED',
      { request_id: requestId, job: row.name },
      `Make a new request_id for a new request: ${requestId} was used for ${row.name}, with another method or body`,
    );
  }

  #refuseWhenFull(): void {
    if (this.#draining)
      throw new FlashcoreError(
        'DRAINING',
        {},
        'Try again when the runner was started again: it is about to end and takes no new work',
      );
    const queued = [...this.#queues.values()].reduce((sum, queue) => sum + queue.length, 0);
    if (queued < this.#options.maxQueued) return;
    throw new FlashcoreError(
      'QUEUE_FULL',
      { queued: String(queued) },
      `Try again in ${RETRY_AFTER_SECONDS} s: ${queued} jobs wait, and no more are taken`,
      { retryAfterSeconds: RETRY_AFTER_SECONDS },
    );
  }

  #refuseOverQuota(options: StartOptions): void {
    const { owner, maxJobsOfOwner = Infinity } = options;
    this.#refuseOverDeviceTime(options);
    const jobs = this.#runsOf(owner).length;
    if (jobs < maxJobsOfOwner) return;
    throw new FlashcoreError(
      'QUOTA_EXCEEDED',
      { quota: 'jobs', jobs: String(jobs) },
      `Try again in ${RETRY_AFTER_SECONDS} s, when a job of yours has ended, or cancel one: ${owner} has ${jobs} jobs that wait or run, the most that one client may have`,
      { retryAfterSeconds: RETRY_AFTER_SECONDS },
    );
  }

  #runsOf(owner: string): JobRun[] {
    return [...this.#runs.values()].filter((run) => run.owner === owner);
  }

  /** Time that was used and time that was promised count alike: a queue of week-long jobs keeps others out too. */
  #refuseOverDeviceTime({ owner, maxDeviceSecondsOfOwner: most = Infinity, maxRunSeconds }: StartOptions): void {
    if (most === Infinity) return;
    const used = this.#table.deviceSeconds(owner, Date.now() - DAY_MS);
    const promised = this.#runsOf(owner).reduce((sum, run) => sum + run.maxRunSeconds, 0);
    if (used + promised + maxRunSeconds <= most) return;
    const hours = (seconds: number): string => `${(seconds / 3600).toFixed(1)} h`;
    throw new FlashcoreError(
      'QUOTA_EXCEEDED',
      { quota: 'device', used_seconds: used.toFixed(0), promised_seconds: promised.toFixed(0) },
      `Give the job a shorter max_run_seconds than ${maxRunSeconds}, cancel one that waits, or try again later: jobs of ${owner} had a device for ${hours(used)} in the last 24 hours, those that wait and run may take ${hours(promised)} more, and ${hours(most)} is the most that one client may have`,
      { retryAfterSeconds: DEVICE_TIME_RETRY_SECONDS },
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
      new DeviceQueue(
        () => this.#options.devices().find((one) => one.deviceId === deviceId) ?? device,
        () => this.#options.writes?.failure === undefined,
      );
    this.#queues.set(deviceId, queue);
    const { state, stateReason } = queue.device();
    if (state !== DeviceState.QUARANTINED) return queue;
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: deviceId },
      `Use another device or restart the runner: ${deviceId} is quarantined, ${stateReason ?? 'and nobody knows why'}`,
    );
  }

  /**
   * Stores the job and its first event in one transaction, in which the request_id leaves the job that this one goes on
   * with: one that is refused leaves all as it was.
   */
  #accept(
    { requestId, requestDigest, owner, labels, maxQueueSeconds, maxRunSeconds }: StartOptions,
    planned: PlannedJob,
    interrupted: JobRow | undefined,
  ): JobRun {
    const { database, logger } = this.#options;
    const name = `jobs/${randomUUID()}`;
    const { jobId, recorder } = this.#noting(() =>
      database.transaction(() => {
        if (interrupted) this.#table.releaseRequestId(interrupted.id);
        return this.#store(name, { requestId, requestDigest, owner, labels }, planned);
      }),
    );
    // Made once the commit has succeeded: a job that was undone must leave no timer behind, because its id is given to
    // the next.
    return new JobRun({
      jobId,
      name,
      owner,
      planned,
      maxQueueSeconds,
      maxRunSeconds,
      recorder,
      logger,
      markStarted: (startMs) => this.#table.markStarted(jobId, startMs),
      markEnded: (end, endMs) => this.#markEnded(jobId, name, planned, end, endMs),
      onStoreFailure: (thrown) => this.#options.writes?.failed(thrown),
      onLeftQueue: (run) => this.#queues.get(run.deviceId)?.remove(run),
    });
  }

  #store(
    name: string,
    { requestId, requestDigest, owner, labels }: Pick<StartOptions, 'requestId' | 'requestDigest' | 'owner' | 'labels'>,
    planned: PlannedJob,
  ): { jobId: number; recorder: JobRecorder } {
    const jobId = this.#table.insert({
      name,
      kind: planned.kind,
      label: planned.label,
      kernel_id: planned.kernelId,
      device_id: planned.deviceId,
      request_id: requestId || null,
      request_digest: requestId ? requestDigest : null,
      create_ms: Date.now(),
      owner,
      labels: labelsText(labels),
    });
    const recorder = new JobRecorder({
      database: this.#options.database,
      log: this.#log,
      feed: this.#feed,
      jobId,
      jobName: name,
      lastSequence: 0,
      cleanText: this.#options.cleanText,
      onStored: (events) => this.#share.stored(events),
      onFailure: (error) => this.#runs.get(jobId)?.failed(error),
    });
    // It is not in the queue yet: all that are there come before it.
    const ahead = this.#queues.get(planned.deviceId)?.positionOfNext(owner) ?? 0;
    recorder.record({ case: 'created', value: create(JobCreatedSchema, { job: jobMessage(this.#find(name), ahead) }) });
    return { jobId, recorder };
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
    jobId: number,
    name: string,
    { kind, kernelId }: Pick<PlannedJob, 'kind' | 'kernelId'>,
    { outcome, summary, result }: JobOutcome,
    endMs: number,
  ): void {
    this.#table.markEnded(jobId, { outcome, summary: this.#cleanText(summary), endMs });
    if (kind === JobKind.EXPERIMENT)
      this.#options.history.record({ jobId, jobName: name, kernelId, outcome, endMs, result });
    this.#options.history.recordSdpa({ jobId, jobName: name, endMs, result });
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
  throw new FlashcoreError('JOB_NOT_FOUND', { name }, `Name a job that ListJobs gives: there is no "${name}"`);
}

function checkAfterSequence(row: JobRow, afterSequence: number): void {
  if (afterSequence > row.last_sequence) {
    throw invalidRequest({
      field: 'after_sequence',
      description: `must be at most ${row.last_sequence}, the number of the job's last event so far, is ${afterSequence}`,
    });
  }
  if (afterSequence < row.first_sequence - 1) {
    throw new FlashcoreError(
      'EVENTS_EXPIRED',
      { first: String(row.first_sequence) },
      `Watch after event ${row.first_sequence - 1} or later: the events of ${row.name} before ${row.first_sequence} are no longer kept`,
    );
  }
}
