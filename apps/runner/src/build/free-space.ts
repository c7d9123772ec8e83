import { existsSync, statfsSync } from 'node:fs';

const EVERY_MS = 100;

/** Watches the space on a folder's disk: a compiler that fails for want of it gives back what it had taken. */
export class FreeSpace implements Disposable {
  readonly #folder: string;
  readonly #timer: NodeJS.Timeout;
  #least = Infinity;

  constructor(folder: string) {
    this.#folder = folder;
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY_MS).unref();
  }

  /** Bytes that there were at the worst moment, this one included; 0 where there was room for no further file. */
  least(): number {
    this.#look();
    return this.#least;
  }

  #look(): void {
    // A removed folder has no free space to report; its compiler fails by itself.
    if (!existsSync(this.#folder)) return;
    const { bavail, bsize, files, ffree } = statfsSync(this.#folder);
    this.#least = Math.min(this.#least, files > 0 && ffree === 0 ? 0 : bavail * bsize);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
