import { readFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { FlashcoreError, type Sha256 } from '@flashcore/shared/contract';
import { BlobStore } from './blob-store.ts';

/** Files made by jobs (machine code, samples, reports), stored by digest. */
export class ArtifactStore {
  readonly #blobs: BlobStore;
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    this.#blobs = new BlobStore(folder);
  }

  /** Stores bytes and returns their digest. Errors: DISK_FULL. */
  put(bytes: Uint8Array): Sha256 {
    return this.#blobs.put(bytes);
  }

  /** Stores a copy of a file. Errors: DISK_FULL. */
  putFile(path: string): Sha256 {
    return this.#blobs.put(readFileSync(path));
  }

  /**
   * The bytes, after checking their digest. Errors: ARTIFACT_NOT_FOUND, also if the file was damaged; it is then set
   * aside.
   */
  get(sha256: Sha256): Buffer {
    return this.#blobs.read(sha256) ?? this.#missing(sha256);
  }

  /** Path of the file; its content is not verified. */
  path(sha256: Sha256): string {
    return this.#blobs.path(sha256);
  }

  /** Like get(), but returns an open file to read in pieces. Errors: those of get(). */
  async open(sha256: Sha256): Promise<FileHandle> {
    return (await this.#blobs.open(sha256)) ?? this.#missing(sha256);
  }

  has(sha256: Sha256): boolean {
    return this.#blobs.has(sha256);
  }

  #missing(sha256: Sha256): never {
    throw new FlashcoreError(
      'ARTIFACT_NOT_FOUND',
      { sha256 },
      `No artifact has the digest ${sha256}, or it is no longer kept: ask for one that a job's result names`,
    );
  }
}
