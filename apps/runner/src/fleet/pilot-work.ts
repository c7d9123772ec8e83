import { toBinary } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  JobEventSchema,
  type JobEvent,
  type JobFinished,
  type Sha256,
} from '@flashcore/shared/contract';
import type { Assignment } from '@flashcore/shared/fleet';
import { JobHeld } from '../jobs/job-run.ts';
import type { LeaseRow } from '../store/fleet-table.ts';
import type { LeaseOptions, PilotLink } from './pilot-link.ts';

/** Shorter than STOP_GRACE_MS of a stopped job, so that a stopped job never leaves the partition held. */
const STOP_WITHIN_MS = 4_000;

/** Maximum bytes of the files and events that a pilot may store for one job. The largest experiments need 40 MiB. */
const MOST_STORED_BYTES = 256 * 1024 ** 2;
/** Limit for one event: a message to a client has room for four events of this size. */
const MOST_EVENT_BYTES = 16 * 1024 ** 2;

/** The files that a pilot may read for its job. */
export type AssignedFiles = Pick<Assignment, 'files' | 'compilations'>;

interface WorkOptions {
  nowMs: () => number;
  /** Records in the store the number of the last event that the gateway heard. */
  note: (heard: number) => void;
}

/** The pilot that has the job. */
interface Holder {
  /** undefined if the pilot is away or lost. */
  link: () => PilotLink | undefined;
  /** Called if the pilot does not stop the job in time. */
  onUnstopped: () => void;
  /** undefined if the pilot already has the job. */
  assignment: Assignment | undefined;
}

/** A job that a pilot has under a lease: which events the gateway heard, and how the job ends. */
export class PilotWork {
  readonly lease: number;
  readonly job: string;
  readonly #nowMs: WorkOptions['nowMs'];
  /** When the pilot began to run the job; undefined until then. */
  #runsSinceMs: number | undefined;
  readonly #note: WorkOptions['note'];
  readonly #end = Promise.withResolvers<JobFinished>();
  #onEvent: LeaseOptions['onEvent'] = () => undefined;
  /** The pilot's number for the last event heard. */
  #heard: number;
  #stopping = false;
  #isOver = false;
  /** The files that the pilot may read; undefined in a restarted gateway until the job is resumed. */
  #readable: Record<'source' | 'build', ReadonlySet<string>> | undefined;
  #storedBytes = 0;

  constructor({ number, job, heard }: Pick<LeaseRow, 'number' | 'job' | 'heard'>, { nowMs, note }: WorkOptions) {
    this.lease = number;
    this.job = job;
    this.#nowMs = nowMs;
    // If an earlier gateway heard events, the job is already running.
    if (heard > 0) this.#runsSinceMs = nowMs();
    this.#heard = heard;
    this.#note = note;
    // Prevents an unhandled rejection if the pilot is lost before run() is called.
    this.#end.promise.catch(() => undefined);
  }

  get heard(): number {
    return this.#heard;
  }

  /** True if the pilot was told to stop the job, or will be told when it is back. */
  get stopping(): boolean {
    return this.#stopping;
  }

  /** True once another PilotWork continues the job under the same lease. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * How long the pilot has run the job. The time to fetch the job's files is left out, because the GPU is idle then.
   */
  usedMs(nowMs: number): number {
    return this.#runsSinceMs === undefined ? 0 : nowMs - this.#runsSinceMs;
  }

  /** Lets the pilot read the job's files. */
  assigned({ files, compilations }: AssignedFiles): void {
    this.#readable = {
      source: new Set(files.map(({ sha256 }) => sha256)),
      build: new Set(compilations.flatMap((compilation) => compilation.files.map(({ sha256 }) => sha256))),
    };
  }

  /** Errors: PERMISSION_DENIED for a file of another job, STORE_UNAVAILABLE if the pilot should ask again. */
  requireReadable(kind: 'source' | 'build', sha256: Sha256): void {
    if (!this.#readable)
      throw new FlashcoreError('STORE_UNAVAILABLE', {}, 'The gateway takes the job up again: ask again in a moment');
    if (this.#readable[kind].has(sha256)) return;
    throw new FlashcoreError('PERMISSION_DENIED', { sha256 }, `${sha256} is not a file of this pilot's job`);
  }

  /** Counts the bytes that the pilot stores. Errors: PERMISSION_DENIED beyond a job's limit. */
  takeStored(bytes: number): void {
    const stored = this.#storedBytes + bytes;
    if (stored > MOST_STORED_BYTES)
      throw new FlashcoreError(
        'PERMISSION_DENIED',
        { lease: String(this.lease) },
        `The files of a job must have at most ${mebibytes(MOST_STORED_BYTES)}, got ${mebibytes(stored)}`,
      );
    this.#storedBytes = stored;
  }

  /** Counts the bytes of an event. Returns the reason if they exceed a limit, else undefined. */
  tooMuch(event: JobEvent): string | undefined {
    // Log lines are not counted here, because a kernel may print any number of them; the job's log has its own limits.
    if (event.payload.case === 'logLine') return undefined;
    const { byteLength } = toBinary(JobEventSchema, event);
    if (byteLength > MOST_EVENT_BYTES)
      return `it tells of ${mebibytes(byteLength)} at once, and may of ${mebibytes(MOST_EVENT_BYTES)}`;
    const stored = this.#storedBytes + byteLength;
    if (stored > MOST_STORED_BYTES)
      return `it has more than ${mebibytes(MOST_STORED_BYTES)} of files and events for one job`;
    this.#storedBytes = stored;
    return undefined;
  }

  /**
   * Assigns the job to the pilot, unless the pilot already has it, and waits until the job ends. Errors: the error
   * given to fail().
   */
  async run({ onEvent, signal }: LeaseOptions, { link, onUnstopped, assignment }: Holder): Promise<JobFinished> {
    this.#onEvent = onEvent;
    let unanswered: NodeJS.Timeout | undefined;
    const stop = (): void => {
      if (signal.reason instanceof JobHeld) return this.#letGo(signal.reason, link());
      this.#stopping = true;
      link()?.stop(this.lease);
      unanswered ??= setTimeout(onUnstopped, STOP_WITHIN_MS);
    };
    const isHeld = signal.reason instanceof JobHeld;
    if (assignment && !isHeld) link()?.assign(assignment);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    try {
      return await this.#end.promise;
    } finally {
      clearTimeout(unanswered);
      signal.removeEventListener('abort', stop);
    }
  }

  /**
   * Used if the gateway can't store the pilot's events: disconnects the pilot, which continues the job and sends the
   * remaining events when it is back.
   */
  #letGo(held: JobHeld, link: PilotLink | undefined): void {
    this.#isOver = true;
    this.fail(held);
    link?.cut(held.message);
  }

  /**
   * Compares an event's number with the last one heard. Events before it were sent again after a disconnection and are
   * ignored.
   */
  placeOf({ sequence }: JobEvent): 'next' | 'heard before' | 'after a gap' {
    const number = Number(sequence);
    // Events of the pilot itself, rather than of its runner, have no number.
    if (number === 0) return 'next';
    if (number <= this.#heard) return 'heard before';
    return number === this.#heard + 1 ? 'next' : 'after a gap';
  }

  hear({ sequence, payload }: JobEvent): void {
    if (payload.case === 'started') this.#runsSinceMs ??= this.#nowMs();
    this.#heard = Math.max(this.#heard, Number(sequence));
  }

  /** Passes an event of the pilot on to the job. Errors: if the event can't be stored. */
  relay(event: JobEvent): void {
    this.#onEvent(event, () => this.#note(this.#heard));
  }

  finish(result: JobFinished): void {
    this.#end.resolve(result);
  }

  fail(error: unknown): void {
    this.#end.reject(error);
  }
}

const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 1024 ** 2)} MiB`;
