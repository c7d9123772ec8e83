import { existsSync, statfsSync } from 'node:fs';

const EVERY_MS = 100;

/**
 * Watches the free space on a folder's disk, because a compiler that fails for lack of space frees what it had used.
 */
export class FreeSpace implements Disposable {
  readonly #folder: string;
  readonly #timer: NodeJS.Timeout;
  #least = Infinity;

  constructor(folder: string) {
    this.#folder = folder;
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY_MS).unref();
  }

  /** The fewest free bytes so far, including now; 0 if there was no room for another file. */
  least(): number {
    this.#look();
    return this.#least;
  }

  #look(): void {
    // A removed folder has no free space to report; its compiler fails anyway.
    if (!existsSync(this.#folder)) return;
    const { bavail, bsize, files, ffree } = statfsSync(this.#folder);
    this.#least = Math.min(this.#least, files > 0 && ffree === 0 ? 0 : bavail * bsize);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
