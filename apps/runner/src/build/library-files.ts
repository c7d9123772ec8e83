import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { storageError } from '../store/storage-error.ts';
import type { CompiledFiles } from './compile-record.ts';

/**
 * Compiled libraries by digest, in a folder that several runners may use at once: a file appears whole, and only ever
 * with the same bytes.
 */
export class LibraryFiles implements CompiledFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  path(sha256: string): string {
    return join(this.#folder, `${sha256}.so`);
  }

  /** Errors: DISK_FULL. */
  putFile(path: string): string {
    const bytes = readFileSync(path);
    const sha256 = sha256Of(bytes);
    const temporary = join(this.#folder, `${randomUUID()}.incoming`);
    try {
      // Executable: one of them is a program.
      writeFileSync(temporary, bytes, { flush: true, mode: 0o700 });
      renameSync(temporary, this.path(sha256));
    } catch (error) {
      rmSync(temporary, { force: true });
      throw storageError(error, 'keep this library');
    }
    return sha256;
  }

  /** Errors: ARTIFACT_NOT_FOUND, also for a damaged file, which is removed. */
  get(sha256: string): Buffer {
    const path = this.path(sha256);
    if (statSync(path, { throwIfNoEntry: false })) {
      const bytes = readFileSync(path);
      if (sha256Of(bytes) === sha256) return bytes;
      rmSync(path, { force: true });
    }
    throw new FlashcoreError('ARTIFACT_NOT_FOUND', { sha256 }, `There is no library of digest ${sha256}`);
  }
}
