import { readFileSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { BlobStore } from './blob-store.ts';

/** Files that jobs made (machine code, samples, reports), by digest. */
export class ArtifactStore {
  readonly #blobs: BlobStore;
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    this.#blobs = new BlobStore(folder);
  }

  /** Keeps bytes and gives their digest. Errors: DISK_FULL. */
  put(bytes: Uint8Array): string {
    return this.#blobs.put(bytes);
  }

  /** Keeps a copy of a file. Errors: DISK_FULL. */
  putFile(path: string): string {
    return this.#blobs.put(readFileSync(path));
  }

  /**
   * The bytes, their digest verified. Errors: ARTIFACT_NOT_FOUND, also when the file was damaged; it is then removed.
   */
  get(sha256: string): Buffer {
    return this.#blobs.read(sha256) ?? this.#missing(sha256);
  }

  /** Where the file lies; not verified. */
  path(sha256: string): string {
    return this.#blobs.path(sha256);
  }

  /**
   * Where the file lies and its size in bytes, for somebody who reads it in pieces; it then counts as used. Not
   * verified. Errors: ARTIFACT_NOT_FOUND.
   */
  use(sha256: string): { path: string; size: number } {
    if (!this.#blobs.markUsed(sha256)) this.#missing(sha256);
    return { path: this.path(sha256), size: this.size(sha256) };
  }

  has(sha256: string): boolean {
    return this.#blobs.has(sha256);
  }

  /** Size in bytes. Errors: ARTIFACT_NOT_FOUND. */
  size(sha256: string): number {
    return this.#blobs.size(sha256) ?? this.#missing(sha256);
  }

  #missing(sha256: string): never {
    throw new FlashcoreError(
      'ARTIFACT_NOT_FOUND',
      { sha256 },
      `No artifact has the digest ${sha256}, or it is no longer kept: ask for one that a job's result names`,
    );
  }
}
