import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { storageError } from './storage-error.ts';

const dataSync = promisify(fdatasync);

export interface WalSyncOptions {
  /** The database's write-ahead log. */
  path: string;
  /** A counter that grows with each change. */
  changes: () => number;
  /** Default: fdatasync. */
  syncFile?: (file: number) => Promise<void>;
}

/**
 * Flushes commits to the disk: one sync for all earlier commits, off the main thread. SQLite's own sync at each commit
 * would hold up the daemon for milliseconds.
 */
export class WalSync {
  readonly #options: WalSyncOptions;
  #file: number | undefined;
  /** Value of the change counter that is on the disk. */
  #synced = -1;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(options: WalSyncOptions) {
    this.#options = options;
  }

  /** Resolves when everything committed before the call is on the disk. Errors: DISK_FULL, STORE_UNAVAILABLE. */
  async synced(): Promise<void> {
    const wanted = this.#options.changes();
    // A sync in progress may have started before the last commit.
    while (this.#synced < wanted && !this.#closed) await (this.#running ??= this.#sync());
  }

  /** Closing the database flushes the rest to the disk. */
  close(): void {
    this.#closed = true;
    if (!this.#running) this.#closeFile();
  }

  async #sync(): Promise<void> {
    const { path, changes, syncFile = dataSync } = this.#options;
    const upTo = changes();
    try {
      await syncFile((this.#file ??= openSync(path, 'r')));
      this.#synced = upTo;
    } catch (error) {
      throw storageError(error, 'store this');
    } finally {
      this.#running = undefined;
      if (this.#closed) this.#closeFile();
    }
  }

  #closeFile(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}
