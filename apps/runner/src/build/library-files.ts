import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlashcoreError, parseSha256, sha256Of, type Sha256 } from '@flashcore/shared/contract';
import { storageError } from '../store/storage-error.ts';
import { makeRoom, readVerified } from '../store/verified-file.ts';
import type { CompiledFiles } from './compile-record.ts';

/**
 * Compiled libraries by digest, in a folder that several runners may use at once. Each file is created in one step and
 * never changed.
 */
export class LibraryFiles implements CompiledFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Errors: INVALID_REQUEST. */
  path(sha256: Sha256): string {
    return join(this.#folder, `${parseSha256(sha256)}.so`);
  }

  /** Errors: DISK_FULL. */
  putFile(path: string): Sha256 {
    return this.put(readFileSync(path));
  }

  /** Errors: DISK_FULL. */
  put(bytes: Buffer): Sha256 {
    const sha256 = sha256Of(bytes);
    const temporary = join(this.#folder, `${randomUUID()}.incoming`);
    try {
      // Executable, because one of the files is a program.
      writeFileSync(temporary, bytes, { flush: true, mode: 0o700 });
      makeRoom({ store: this.#folder, path: this.path(sha256) });
      renameSync(temporary, this.path(sha256));
    } catch (error) {
      rmSync(temporary, { force: true });
      throw storageError(error, 'keep this library');
    }
    return sha256;
  }

  /** Errors: ARTIFACT_NOT_FOUND, also for a damaged file, which is moved aside. */
  get(sha256: Sha256): Buffer {
    const bytes = readVerified({ store: this.#folder, path: this.path(sha256) }, sha256);
    if (bytes) return bytes;
    throw new FlashcoreError('ARTIFACT_NOT_FOUND', { sha256 }, `There is no library of digest ${sha256}`);
  }
}
