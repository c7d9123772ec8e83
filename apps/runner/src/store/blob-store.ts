import { createHash, randomUUID } from 'node:crypto';
import {
  closeSync,
  fdatasyncSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
  lstatSync,
  lutimesSync,
} from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestOf, parseSha256, sha256Of, type Sha256 } from '@flashcore/shared/contract';
import { storageError } from './storage-error.ts';
import { makeRoom, openVerified, ownFolder, readVerified, sizeOfStored, type StoredPlace } from './verified-file.ts';

/**
 * Files stored under the digest of their content. They are written elsewhere, flushed to disk, then renamed, so that a
 * file is complete or missing. A stored file survives a power cut, because its name is flushed too.
 */
export class BlobStore {
  readonly #folder: string;
  readonly #temporary: string;

  /** Makes the folder and removes files that a killed runner left half-written in it. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#temporary = ownFolder(join(folder, 'incoming'));
    // Only the folder's content is removed, because the folder could not be made again on a full disk.
    for (const name of readdirSync(this.#temporary)) rmSync(join(this.#temporary, name), { recursive: true });
  }

  /** Path of a digest's file, whether or not it exists. */
  path(sha256: Sha256): string {
    return this.#place(sha256).path;
  }

  /**
   * The file's place. Parses the digest again, because a wrongly typed text must not become a path. Errors:
   * INVALID_REQUEST.
   */
  #place(digest: Sha256): StoredPlace {
    const sha256 = parseSha256(digest);
    return { store: this.#folder, path: join(this.#folder, sha256.slice(0, 2), sha256.slice(2)) };
  }

  has(sha256: Sha256): boolean {
    return this.size(sha256) !== undefined;
  }

  /** Marks a file as used; returns whether it exists. */
  markUsed(sha256: Sha256): boolean {
    if (!this.has(sha256)) return false;
    markUsed(this.path(sha256));
    return true;
  }

  /** Size in bytes; undefined if there is no such file. */
  size(sha256: Sha256): number | undefined {
    return sizeOfStored(this.#place(sha256));
  }

  /** Reads a file and checks its digest; undefined if it is missing, or damaged and therefore set aside. */
  read(sha256: Sha256): Buffer | undefined {
    const bytes = readVerified(this.#place(sha256), sha256);
    if (bytes) markUsed(this.path(sha256));
    return bytes;
  }

  /** Like read(), but returns an open file to read in pieces. */
  async open(sha256: Sha256): Promise<FileHandle | undefined> {
    const file = await openVerified(this.#place(sha256), sha256);
    if (file) markUsed(this.path(sha256));
    return file;
  }

  /** Stores bytes. Errors: DISK_FULL. */
  put(bytes: Uint8Array): Sha256 {
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

  /** A file to write piece by piece; `close` drops it unless `keep` was called before. Errors of both: DISK_FULL. */
  openWriter(): BlobWriter {
    return new BlobWriter(join(this.#temporary, randomUUID()), (sha256) => this.#place(sha256));
  }
}

/** A file of a BlobStore while it is being written. */
export class BlobWriter {
  readonly #temporary: string;
  readonly #destination: (sha256: Sha256) => StoredPlace;
  readonly #hash = createHash('sha256');
  readonly #descriptor: number;
  #open = true;
  /** Bytes written so far. */
  size = 0;

  constructor(temporary: string, destination: (sha256: Sha256) => StoredPlace) {
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

  /** Digest of the written bytes; nothing can be written afterwards. */
  digest(): Sha256 {
    return digestOf(this.#hash);
  }

  keep(sha256: Sha256): void {
    const place = this.#destination(sha256);
    onDisk(() => {
      fdatasyncSync(this.#descriptor);
      const madeFolder = makeRoom(place);
      renameSync(this.#temporary, place.path);
      syncFolder(dirname(place.path));
      if (madeFolder) syncFolder(place.store);
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

/** Flushes the names in a folder to the disk. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function onDisk<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw storageError(error, 'keep this file');
  }
}

/** A file's recorded use may be older than its last use by this much. */
const RESOLUTION_MS = 10 * 60 * 1000;

/** Records that a file or folder was used, in its modification time: those unused for longest are removed first. */
export function markUsed(path: string): void {
  const now = new Date();
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && now.getTime() - found.mtimeMs > RESOLUTION_MS) lutimesSync(path, now, now);
}
