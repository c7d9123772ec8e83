import { createHash, randomUUID } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { sha256Of } from '@flashcore/shared/kernels';
import { markUsed } from './last-used.ts';
import { storageError } from './storage-error.ts';

/**
 * Files kept under the digest of their content: written beside their place, put on disk, then renamed, so that a file
 * is there whole or not at all.
 */
export class BlobStore {
  readonly #folder: string;
  readonly #temporary: string;

  /** Makes the folder and drops what a killed runner left half-written in it. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#temporary = join(folder, 'incoming');
    mkdirSync(this.#temporary, { recursive: true, mode: 0o700 });
    // The folder stays: on a full disk none could be made.
    for (const name of readdirSync(this.#temporary)) rmSync(join(this.#temporary, name), { recursive: true });
  }

  /** Where the file of a digest lies, or would lie. */
  path(sha256: string): string {
    return join(this.#folder, sha256.slice(0, 2), sha256.slice(2));
  }

  has(sha256: string): boolean {
    return existsSync(this.path(sha256));
  }

  /** Whether there is such a file; it then counts as used. */
  markUsed(sha256: string): boolean {
    if (!this.has(sha256)) return false;
    markUsed(this.path(sha256));
    return true;
  }

  /** Size in bytes; undefined when there is no such file. */
  size(sha256: string): number | undefined {
    return statSync(this.path(sha256), { throwIfNoEntry: false })?.size;
  }

  /** Reads a file and checks its digest. A damaged file is removed; undefined then, and when there is none. */
  read(sha256: string): Buffer | undefined {
    const path = this.path(sha256);
    if (!existsSync(path)) return undefined;
    const bytes = readFileSync(path);
    if (sha256Of(bytes) === sha256) {
      markUsed(path);
      return bytes;
    }
    rmSync(path, { force: true });
    return undefined;
  }

  /** Keeps bytes. Errors: DISK_FULL. */
  put(bytes: Uint8Array): string {
    const sha256 = sha256Of(bytes);
    if (this.size(sha256) === bytes.byteLength) {
      markUsed(this.path(sha256));
      return sha256;
    }
    const writer = this.openWriter();
    try {
      writer.write(bytes);
      writer.keep(sha256);
      return sha256;
    } finally {
      writer.close();
    }
  }

  /** A file that is written piece by piece; `close` drops it unless `keep` came before. Errors of both: DISK_FULL. */
  openWriter(): BlobWriter {
    return new BlobWriter(join(this.#temporary, randomUUID()), (sha256) => this.path(sha256));
  }
}

/** A file of a BlobStore on its way in. */
export class BlobWriter {
  readonly #temporary: string;
  readonly #destination: (sha256: string) => string;
  readonly #hash = createHash('sha256');
  readonly #descriptor: number;
  #open = true;
  /** Bytes written so far. */
  size = 0;

  constructor(temporary: string, destination: (sha256: string) => string) {
    this.#temporary = temporary;
    this.#destination = destination;
    this.#descriptor = onDisk(() => openSync(temporary, 'wx', 0o600));
  }

  write(bytes: Uint8Array): void {
    this.#hash.update(bytes);
    this.size += bytes.byteLength;
    onDisk(() => {
      for (let written = 0; written < bytes.byteLength;) written += writeSync(this.#descriptor, bytes, written);
    });
  }

  /** Digest of what was written; nothing can be written after it. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  keep(sha256: string): void {
    const path = this.#destination(sha256);
    onDisk(() => {
      fdatasyncSync(this.#descriptor);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      renameSync(this.#temporary, path);
    });
    this.#close();
  }

  close(): void {
    if (!this.#open) return;
    this.#close();
    rmSync(this.#temporary, { force: true });
  }

  #close(): void {
    this.#open = false;
    closeSync(this.#descriptor);
  }
}

function onDisk<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw storageError(error, 'keep this file');
  }
}
