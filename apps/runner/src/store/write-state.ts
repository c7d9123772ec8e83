import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { FlashcoreError } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import type { Database } from './database.ts';
import { isStorageFailure } from './storage-error.ts';

/** Free space needed before new work is accepted again. */
const ROOM_BYTES = 1024 ** 2;
const LOOK_EVERY_MS = 500;

export interface WriteStateOptions {
  database: Database;
  dataDirectory: string;
  logger: Logger;
}

/**
 * Whether the store takes writes. After the disk or the database refused a write, the runner only reads, until it can
 * write a megabyte and commit a transaction again.
 */
export class WriteState {
  readonly #options: WriteStateOptions;
  readonly #listeners: ((writable: boolean) => void)[] = [];
  #failure: FlashcoreError | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WriteStateOptions) {
    this.#options = options;
  }

  /** Why nothing can be stored; undefined if the store takes writes. */
  get failure(): FlashcoreError | undefined {
    return this.#failure;
  }

  /** Registers a listener for changes. */
  onChange(listener: (writable: boolean) => void): void {
    this.#listeners.push(listener);
  }

  /** Handles an error; errors that are not about the store are ignored. */
  failed(error: unknown): void {
    if (this.#failure || !isStorageFailure(error)) return;
    this.#failure = error;
    this.#options.logger.error({ reason: error.reason, err: error }, 'only reading: the store takes no writes');
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    this.#tell(false);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    try {
      this.#tryToWrite();
    } catch (error) {
      this.#options.logger.debug({ err: error }, 'the store takes no writes yet');
      return;
    }
    clearInterval(this.#timer);
    this.#failure = undefined;
    this.#options.logger.info({}, 'the store takes writes again');
    this.#tell(true);
  }

  #tryToWrite(): void {
    const path = join(this.#options.dataDirectory, 'room');
    const descriptor = openSync(path, 'w', 0o600);
    try {
      for (let left = ROOM_BYTES; left > 0;) left -= writeSync(descriptor, Buffer.alloc(Math.min(left, 64 * 1024)));
      fdatasyncSync(descriptor);
    } finally {
      closeSync(descriptor);
      rmSync(path, { force: true });
    }
    this.#options.database.tryToWrite();
  }

  #tell(writable: boolean): void {
    for (const listener of this.#listeners) listener(writable);
  }
}
