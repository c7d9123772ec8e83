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

/** Less than a stopped job has (STOP_GRACE_MS), so that the partition never counts as held. */
const STOP_WITHIN_MS = 4_000;

/** Most bytes of files and events that a pilot may store for one job. The largest experiments need 40 MiB. */
const MOST_STORED_BYTES = 256 * 1024 ** 2;
/** An answer to a client can hold four events of this size. */
const MOST_EVENT_BYTES = 16 * 1024 ** 2;

/** What the files that a pilot reads are. */
export type AssignedFiles = Pick<Assignment, 'files' | 'compilations'>;

interface WorkOptions {
  nowMs: () => number;
  /** Notes in the store how far the pilot's events are. */
  note: (heard: number) => void;
}

/** The pilot that has it. */
interface Holder {
  /** Undefined: it is away, or lost. */
  link: () => PilotLink | undefined;
  /** Told when it does not stop. */
  onUnstopped: () => void;
  /** Undefined: the pilot has the job already. */
  assignment: Assignment | undefined;
}

/** A job that a pilot has under a lease: how far its events are, and how it ends. */
export class PilotWork {
  readonly lease: number;
  readonly job: string;
  readonly #nowMs: WorkOptions['nowMs'];
  /** When the pilot began to run it; undefined: it was assigned. */
  #runsSinceMs: number | undefined;
  readonly #note: WorkOptions['note'];
  readonly #end = Promise.withResolvers<JobFinished>();
  #onEvent: LeaseOptions['onEvent'] = () => undefined;
  /** The pilot's number of the last event. */
  #heard: number;
  #stopping = false;
  #isOver = false;
  /** Undefined: the job was not taken up yet since the gateway was started again. */
  #readable: Record<'source' | 'build', ReadonlySet<string>> | undefined;
  #storedBytes = 0;

  constructor({ number, job, heard }: Pick<LeaseRow, 'number' | 'job' | 'heard'>, { nowMs, note }: WorkOptions) {
    this.lease = number;
    this.job = job;
    this.#nowMs = nowMs;
    // It ran when an earlier gateway heard of it.
    if (heard > 0) this.#runsSinceMs = nowMs();
    this.#heard = heard;
    this.#note = note;
    // The pilot may be lost before its job runs.
    this.#end.promise.catch(() => undefined);
  }

  get heard(): number {
    return this.#heard;
  }

  /** The pilot was told to stop it, or is to be once it is back. */
  get stopping(): boolean {
    return this.#stopping;
  }

  /** Its job goes on under the same lease, as another work. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** How long the pilot has run it: while it fetches what the job is made of, its GPU is idle. */
  usedMs(nowMs: number): number {
    return this.#runsSinceMs === undefined ? 0 : nowMs - this.#runsSinceMs;
  }

  /** Lets its pilot read what the job is made of. */
  assigned({ files, compilations }: AssignedFiles): void {
    this.#readable = {
      source: new Set(files.map(({ sha256 }) => sha256)),
      build: new Set(compilations.flatMap((compilation) => compilation.files.map(({ sha256 }) => sha256))),
    };
  }

  /** Errors: PERMISSION_DENIED for a file that is no part of the job, STORE_UNAVAILABLE: ask again. */
  requireReadable(kind: 'source' | 'build', sha256: Sha256): void {
    if (!this.#readable)
      throw new FlashcoreError('STORE_UNAVAILABLE', {}, 'The gateway takes the job up again: ask again in a moment');
    if (this.#readable[kind].has(sha256)) return;
    throw new FlashcoreError(
      'PERMISSION_DENIED',
      { sha256 },
      `Read the files of your own job: ${sha256} is none of them`,
    );
  }

  /** Counts what its pilot stores. Errors: PERMISSION_DENIED beyond what a job may have. */
  takeStored(bytes: number): void {
    const stored = this.#storedBytes + bytes;
    if (stored > MOST_STORED_BYTES)
      throw new FlashcoreError(
        'PERMISSION_DENIED',
        { lease: String(this.lease) },
        `Store at most ${mebibytes(MOST_STORED_BYTES)} for a job: this would make ${mebibytes(stored)}`,
      );
    this.#storedBytes = stored;
  }

  /** Counts the bytes of an event. Returns the reason where they exceed a limit, else undefined. */
  tooMuch(event: JobEvent): string | undefined {
    // The job's log has its own limit on lines, since a kernel may print any number.
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

  /** Has the pilot do it, or go on with it, until it ends. Errors: those of fail(). */
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

  /** The gateway can't store what the pilot tells: cut off, it runs on, and tells the rest when it comes back. */
  #letGo(held: JobHeld, link: PilotLink | undefined): void {
    this.#isOver = true;
    this.fail(held);
    link?.cut(held.message);
  }

  /** Where an event stands after those that were heard; one that was told before, ahead of a cut, is passed over. */
  placeOf({ sequence }: JobEvent): 'next' | 'heard before' | 'after a gap' {
    const number = Number(sequence);
    // The pilot's own word, where its runner has none.
    if (number === 0) return 'next';
    if (number <= this.#heard) return 'heard before';
    return number === this.#heard + 1 ? 'next' : 'after a gap';
  }

  hear({ sequence, payload }: JobEvent): void {
    if (payload.case === 'started') this.#runsSinceMs ??= this.#nowMs();
    this.#heard = Math.max(this.#heard, Number(sequence));
  }

  /** Passes an event on that was heard. Errors: it can't be stored. */
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
