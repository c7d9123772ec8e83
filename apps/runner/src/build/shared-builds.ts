import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Of } from '@flashcore/shared/contract';
import { readForeignFile } from '@flashcore/shared/files';
import { readRecord, writeRecord, type CompiledFiles, type CompileRecord, openRecord } from './compile-record.ts';
import { LibraryFiles } from './library-files.ts';

/**
 * Compilations that several runners of one user share, in addition to each runner's own cache: a unit that one runner
 * has compiled is copied by the others.
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

/** Limit for a file; the largest library has some MiB. */
const MOST_BYTES = 1024 ** 3;

/** The folder in which an installation stores its own compilations. It is removed along with node_modules. */
export const installedFolder = (repositoryRoot: string): string =>
  join(repositoryRoot, 'node_modules/.cache/flashcore/libraries');

/**
 * Compilations that `flashcore-runner compile` made at installation, by the digest of all inputs: sources, flags,
 * compiler, processor. Never written to, because the folder may be another user's.
 */
export class InstalledLibraries {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Copies a compilation into a runner's own files; undefined if it is missing or incomplete. Errors: DISK_FULL. */
  copyTo(own: CompiledFiles, key: string): CompileRecord | undefined {
    const text = this.#read(`entries/${key}.json`)?.toString('utf8');
    const record = text === undefined ? undefined : openRecord(text);
    if (record?.key !== key) return undefined;
    const files = record.outputs.map(({ sha256 }) => `files/${sha256}.so`);
    if (!record.outputs.every(({ sha256 }, index) => this.#has(files[index]!, sha256))) return undefined;
    for (const file of files) own.putFile(join(this.#folder, file));
    return record;
  }

  /** Does nothing, because the installation is never written to. */
  keep(): void {}

  #has(file: string, sha256: string): boolean {
    const bytes = this.#read(file);
    return bytes !== undefined && sha256Of(bytes) === sha256;
  }

  #read(file: string): Buffer | undefined {
    const path = join(this.#folder, file);
    return statSync(path, { throwIfNoEntry: false }) ? readForeignFile(path, MOST_BYTES) : undefined;
  }
}
