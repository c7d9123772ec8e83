import { create, fromBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  FlashcoreError,
  JobCreatedSchema,
  JobEventSchema,
  JobKind,
  type CleanText,
  type JobResult,
  JobSchema,
  type Job,
} from '@flashcore/shared/contract';
import { plainText } from '@flashcore/shared/text';
import type { Database } from '../store/database.ts';
import { EventLog } from '../store/event-log.ts';
import type { HistoryStore } from '../store/history.ts';
import { JobTable, type JobRow, labelsText, type Labels, readLabels } from '../store/job-table.ts';
import { EventStreams } from './event-streams.ts';
import type { JobOutcome, PlannedJob } from './job-context.ts';
import { JobRecorder } from './job-recorder.ts';
import type { EndTimes } from './job-run.ts';

export interface StoredJobsOptions {
  database: Database;
  history: HistoryStore;
  /** Cleans all texts in events. */
  cleanText?: CleanText | undefined;
  /** Called for a job whose events can't be stored. */
  onFailure: (jobId: number, error: unknown) => void;
  nowMs: () => number;
}

/** A planned job, and the stored part of its request. */
export interface AcceptedJob {
  name: string;
  planned: PlannedJob;
  /** Empty if the client gave none. */
  requestId: string;
  requestDigest: string;
  owner: string;
  weight: number;
  labels: Labels;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  /** Number of jobs ahead of the new one. */
  ahead: number;
  /** The interrupted job that this one replaces. */
  interrupted: JobRow | undefined;
}

/** The stored form of jobs: rows, events with their watchers, and history entries. */
export class StoredJobs {
  readonly table: JobTable;
  readonly log: EventLog;
  readonly streams: EventStreams;
  readonly #options: StoredJobsOptions;

  constructor(options: StoredJobsOptions) {
    this.#options = options;
    this.table = new JobTable(options.database);
    this.log = new EventLog(options.database);
    this.streams = new EventStreams(this.table, this.log);
  }

  /** Finds a job by its name. Errors: JOB_NOT_FOUND. */
  find(name: string): JobRow {
    return this.table.byName(name) ?? jobNotFound(name);
  }

  /** Finds a job by its number in the store. Errors: JOB_NOT_FOUND. */
  byId(id: number): JobRow {
    return this.table.byId(id) ?? jobNotFound(String(id));
  }

  /** A job's result, which is in its last event; undefined while it has none. */
  resultOf(row: JobRow): JobResult | undefined {
    const last = this.log.read(row.id, row.last_sequence);
    const payload = last && fromBinary(JobEventSchema, last.event).payload;
    return payload?.case === 'finished' ? payload.value.result : undefined;
  }

  /**
   * Stores a job and its first event in one transaction, which also takes the request_id from the interrupted job that
   * this one replaces; a refused job therefore changes nothing. Returns its number.
   */
  add(job: AcceptedJob): number {
    return this.#options.database.transaction(() => {
      const { interrupted, planned, weight, maxQueueSeconds, maxRunSeconds } = job;
      if (interrupted) this.table.releaseRequestId(interrupted.id);
      const id = this.#insert(job);
      const kept = planned.body ? planned.again : planned.kept;
      if (kept) this.table.keepRequest(id, { ...kept, weight, maxQueueSeconds, maxRunSeconds });
      return id;
    });
  }

  #insert({ name, planned, requestId, requestDigest, owner, labels, ahead }: AcceptedJob): number {
    const jobId = this.table.insert({
      name,
      kind: planned.kind,
      label: planned.label,
      kernel_id: planned.kernelId,
      device_id: planned.deviceId,
      request_id: requestId || null,
      request_digest: requestId ? requestDigest : null,
      create_ms: this.#options.nowMs(),
      owner,
      labels: labelsText(labels),
      code_digest: planned.codeDigest ?? '',
    });
    const row = this.byId(jobId);
    this.recorderOf(row).record({
      case: 'created',
      value: create(JobCreatedSchema, { job: jobMessage(row, ahead) }),
    });
    return jobId;
  }

  /** Recorder of the job's further events. */
  recorderOf({ id: jobId, name: jobName, last_sequence: lastSequence }: JobRow): JobRecorder {
    const { database, cleanText, onFailure } = this.#options;
    return new JobRecorder({
      database,
      log: this.log,
      feed: this.streams.feed,
      jobId,
      jobName,
      lastSequence,
      cleanText,
      onStored: (events) => this.streams.stored(events),
      onFailure: (error) => onFailure(jobId, error),
    });
  }

  /** Stores a job's outcome; part of a transaction. */
  markEnded({ id: jobId, name: jobName, kind, kernel_id: kernelId }: JobRow, end: JobOutcome, times: EndTimes): void {
    const { history, cleanText = plainText } = this.#options;
    const { outcome, summary, result } = end;
    const { endMs } = times;
    this.table.markEnded(jobId, { outcome, summary: cleanText(summary), ...times });
    if (kind === JobKind.EXPERIMENT) history.record({ jobId, jobName, kernelId, outcome, endMs, result });
    history.recordSdpa({ jobId, jobName, endMs, result });
  }
}

function jobNotFound(name: string): never {
  throw new FlashcoreError('JOB_NOT_FOUND', { name }, `Unknown job "${name}": name one that ListJobs gives`);
}

/** A stored job as clients see it. */
export function jobMessage(row: JobRow, queuePosition = 0): Job {
  return create(JobSchema, {
    name: row.name,
    kind: row.kind,
    state: row.state,
    outcome: row.outcome,
    summary: row.summary,
    label: row.label,
    kernelId: row.kernel_id,
    deviceId: row.device_id,
    ...(row.request_id !== null && { requestId: row.request_id }),
    lastSequence: BigInt(row.last_sequence),
    createTime: timestampFromMs(row.create_ms),
    ...(row.start_ms !== null && { startTime: timestampFromMs(row.start_ms) }),
    ...(row.end_ms !== null && { endTime: timestampFromMs(row.end_ms) }),
    queuePosition,
    ...(row.owner !== '' && { owner: row.owner }),
    labels: readLabels(row.labels),
    codeDigest: row.code_digest,
  });
}
