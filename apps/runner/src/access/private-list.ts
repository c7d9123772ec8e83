import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';

/**
 * A list in a JSON file that is private to its owner. It is read again whenever the file has changed, even by another
 * process, so changes count from the next call on.
 */
export class PrivateList<Entry> {
  readonly #path: string;
  #known = { mark: '', entries: [] as readonly Entry[] };

  constructor(path: string) {
    this.#path = path;
  }

  read(): readonly Entry[] {
    if (!existsSync(this.#path)) return [];
    const { mtimeMs, ino, size } = statSync(this.#path);
    const mark = `${mtimeMs} ${ino} ${size}`;
    if (mark !== this.#known.mark)
      this.#known = { mark, entries: JSON.parse(readFileSync(this.#path, 'utf8')) as Entry[] };
    return this.#known.entries;
  }

  /** Written in one step. */
  write(entries: readonly Entry[]): void {
    writeFileSync(`${this.#path}.new`, `${JSON.stringify(entries, undefined, 2)}\n`, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
  }
}
