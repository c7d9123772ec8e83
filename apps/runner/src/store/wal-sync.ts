import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { storageError } from './storage-error.ts';

const dataSync = promisify(fdatasync);

export interface WalSyncOptions {
  /** The database's write-ahead log. */
  path: string;
  /** A number that grows with each change. */
  changes: () => number;
  /** Default: fdatasync. */
  syncFile?: (file: number) => Promise<void>;
}

/**
 * Brings commits to the disk: one sync for all that were made before it, beside the main thread. SQLite's own sync at
 * each commit holds the daemon for milliseconds.
 */
export class WalSync {
  readonly #options: WalSyncOptions;
  #file: number | undefined;
  /** The changes that are on the disk. */
  #synced = -1;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(options: WalSyncOptions) {
    this.#options = options;
  }

  /** Resolves when what was committed before the call is on the disk. Errors: DISK_FULL, STORE_UNAVAILABLE. */
  async synced(): Promise<void> {
    const wanted = this.#options.changes();
    // One that is under way may have begun before the last commit.
    while (this.#synced < wanted && !this.#closed) await (this.#running ??= this.#sync());
  }

  /** The database's own end brings the rest to the disk. */
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
