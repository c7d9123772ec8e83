import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readRecord, writeRecord, type CompiledFiles, type CompileRecord } from './compile-record.ts';
import { LibraryFiles } from './library-files.ts';

/**
 * Compilations that several runners of one user share, in addition to each runner's own cache: the others copy what one
 * has compiled.
 */
export class SharedBuilds {
  readonly #entries: string;
  readonly #files: LibraryFiles;

  constructor(folder: string) {
    this.#entries = join(folder, 'entries');
    mkdirSync(this.#entries, { recursive: true, mode: 0o700 });
    this.#files = new LibraryFiles(join(folder, 'files'));
  }

  /** Copies a compilation into a runner's own files; undefined if it is missing or incomplete. Errors: DISK_FULL. */
  copyTo(own: CompiledFiles, key: string): CompileRecord | undefined {
    const record = readRecord(this.#path(key), key, this.#files);
    for (const { sha256 } of record?.outputs ?? []) own.putFile(this.#files.path(sha256));
    return record;
  }

  /** Errors: DISK_FULL. */
  keep(own: CompiledFiles, record: CompileRecord): void {
    for (const { sha256 } of record.outputs) this.#files.putFile(own.path(sha256));
    writeRecord(this.#path(record.key), record);
  }

  #path(key: string): string {
    return join(this.#entries, `${key}.json`);
  }
}
