import { create, toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobEventSchema, LogLineSchema, plainMessage, WarningSchema, type CleanText } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';
import type { Database } from '../store/database.ts';
import type { EventLog, StoredEvent } from '../store/event-log.ts';
import { isBusy } from '../store/storage-error.ts';
import type { EventFeed } from './event-streams.ts';
import type { JobPayload } from './job-context.ts';

// Maximum number of log lines in one transaction. A transaction costs about 0.3 ms, and each line about 5 us.
const MAX_PENDING = 512;
/** Stops a flood from a kernel's printf or from a pilot; enough lines for any compiler (25 MB at 100 bytes a line). */
const MAX_LOG_LINES = 250_000;
/**
 * Limit on the bytes of a job's log; long lines reach it before MAX_LOG_LINES. A full disk would stop every client's
 * jobs.
 */
const MAX_LOG_BYTES = 64 * 1024 ** 2;
/**
 * Maximum number of events (some MiB) held in memory while another process locks the database, and the retry interval.
 */
const MAX_HELD = 8_192;
const TRY_AGAIN_MS = 200;

export interface RecorderOptions {
  database: Database;
  log: EventLog;
  feed: EventFeed;
  /** Called with the number of events stored. */
  onStored?: (events: number) => void;
  jobId: number;
  jobName: string;
  /** Number of the job's last event so far. */
  lastSequence: number;
  /** Cleans all texts; default: removes control sequences that could steer a terminal. */
  cleanText?: CleanText | undefined;
  /** Called when batched log lines could not be stored. */
  onFailure: (error: unknown) => void;
}

/** Longest text of a LogLine, as job_event.proto gives it. */
const MAX_LOG_LINE_CHARACTERS = 4096;

/** A line as it may be stored and shown: without control characters, at most 4096 characters. */
export function cleanLogLine(text: string): string {
  const clean = plainLine(text);
  if (clean.length <= MAX_LOG_LINE_CHARACTERS) return clean;
  return `${clean.slice(0, MAX_LOG_LINE_CHARACTERS - 1)}…`;
}

/** Numbers, stores and announces the events of one job, in this order. */
export class JobRecorder {
  readonly #options: RecorderOptions;
  #sequence: number;
  #pending: StoredEvent[] = [];
  /** Work to do in the transaction that stores the pending events. */
  readonly #alongside = new Set<() => void>();
  #flushSoon: NodeJS.Immediate | undefined;
  #tryAgain: NodeJS.Timeout | undefined;
  #logLines = 0;
  #logBytes = 0;
  #logIsFull = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#sequence = options.lastSequence;
  }

  /**
   * Stores an event, and runs `alongside` in the same transaction. Errors: DISK_FULL, STORE_UNAVAILABLE; the event is
   * then not in the log.
   */
  record(payload: JobPayload, alongside?: () => void): void {
    this.#enqueue(payload);
    if (alongside) this.#alongside.add(alongside);
    try {
      this.#flush();
    } catch (error) {
      // The events before this one stay pending; only this one is dropped.
      if (isBusy(error)) {
        this.#pending.pop();
        this.#sequence -= 1;
        if (alongside) this.#alongside.delete(alongside);
      }
      throw error;
    }
  }

  /**
   * Stores an event as record() does. While another process holds the database's lock, this event and later ones are
   * held in memory, where no watcher sees them, and stored when the lock is free. Errors: as record(), except that a
   * lock is not an error.
   */
  recordWhenFree(payload: JobPayload, alongside?: () => void): void {
    this.#enqueue(payload);
    if (alongside) this.#alongside.add(alongside);
    this.#flushWhenFree();
  }

  /**
   * Appends a log line. It is stored with others at the end of this turn of the event loop, or at once if many are
   * waiting. Lines beyond the job's limit are dropped, with one warning; their `alongside` runs all the same.
   */
  recordLogLine(source: string, text: string, alongside?: () => void): void {
    if (alongside) this.#alongside.add(alongside);
    if (!this.#logIsFull) this.#enqueue(this.#logLine(source, text));
    if (this.#tryAgain !== undefined) return;
    if (this.#pending.length >= MAX_PENDING) this.#flushWhenFree();
    else this.#flushSoon ??= setImmediate(() => this.#flushBatch());
  }

  /** The line, or a warning in place of the first one beyond the limit. */
  #logLine(source: string, text: string): JobPayload {
    const value = create(LogLineSchema, { source: cleanLogLine(source), text: cleanLogLine(text) });
    const bytes = this.#logBytes + Buffer.byteLength(value.source) + Buffer.byteLength(value.text);
    this.#logIsFull = this.#logLines === MAX_LOG_LINES || bytes > MAX_LOG_BYTES;
    if (this.#logIsFull) return logIsFull(this.#logLines);
    this.#logLines += 1;
    this.#logBytes = bytes;
    return { case: 'logLine', value };
  }

  /** Drops the events that are not stored yet. */
  drop(): void {
    if (this.#flushSoon) clearImmediate(this.#flushSoon);
    clearTimeout(this.#tryAgain);
    this.#flushSoon = undefined;
    this.#tryAgain = undefined;
    this.#pending = [];
    this.#alongside.clear();
  }

  #enqueue(payload: JobPayload): void {
    const sequence = this.#sequence + 1;
    const event = create(JobEventSchema, {
      job: this.#options.jobName,
      sequence: BigInt(sequence),
      time: timestampFromMs(Date.now()),
      payload,
    });
    // Most events contain output of compilers, kernels or tools, which must never steer a terminal.
    const plain = plainMessage(JobEventSchema, event, this.#options.cleanText);
    this.#pending.push({ sequence, event: toBinary(JobEventSchema, plain) });
    this.#sequence = sequence;
  }

  #flushBatch(): void {
    try {
      this.#flushWhenFree();
    } catch (error) {
      this.#options.onFailure(error);
    }
  }

  #flushWhenFree(): void {
    try {
      this.#flush();
    } catch (error) {
      if (!isBusy(error) || this.#pending.length > MAX_HELD) throw error;
      this.#tryAgain ??= setTimeout(() => {
        this.#tryAgain = undefined;
        this.#flushBatch();
      }, TRY_AGAIN_MS);
    }
  }

  #flush(): void {
    if (this.#flushSoon) clearImmediate(this.#flushSoon);
    this.#flushSoon = undefined;
    const events = this.#pending;
    const alongside = [...this.#alongside];
    if (events.length === 0 && alongside.length === 0) return;
    this.#pending = [];
    this.#alongside.clear();
    const { database, log, jobId, feed } = this.#options;
    try {
      database.transaction(() => {
        log.append(jobId, events);
        for (const work of alongside) work();
      });
    } catch (error) {
      if (isBusy(error)) {
        this.#pending = events;
        alongside.forEach((work) => this.#alongside.add(work));
      } else this.#sequence -= events.length; // None was stored, so their numbers are still free.
      throw error;
    }
    clearTimeout(this.#tryAgain);
    this.#tryAgain = undefined;
    this.#options.onStored?.(events.length);
    feed.notify(jobId);
  }
}

const logIsFull = (kept: number): JobPayload => ({
  case: 'warning',
  value: create(WarningSchema, { message: `Only the first ${kept} log lines of this job are kept` }),
});
