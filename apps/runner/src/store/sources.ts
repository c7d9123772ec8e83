import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  FlashcoreError,
  invalidRequest,
  parseSha256,
  type Sha256,
  type SourceFile,
  type SourceTree,
  SourceTreeSchema,
  VariantSchema,
  type Variant,
} from '@flashcore/shared/contract';
import { treeDigest } from '@flashcore/shared/kernels';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { BlobStore, type BlobWriter, markUsed } from './blob-store.ts';
import { readTree, sourceTreeViolations } from './source-tree.ts';
import { storageError } from './storage-error.ts';
import { setAside } from './verified-file.ts';
import type { Database } from './database.ts';

/** An unfinished folder is named after the digest of the finished one. */
const HALF_MADE = /^[0-9a-f]{64}\./;

/** A client's kernel folder on the runner's disk. */
export interface MaterializedTree {
  folder: string;
  /** Digest of the folder's content. */
  digest: string;
}

/**
 * Source files that clients uploaded, by digest, and folders made from them. The folders contain copies, not links:
 * changing a file in a folder must not change the upload, from which the folder is then made again.
 */
export class SourceStore {
  readonly #blobs: BlobStore;
  readonly #trees: string;

  /** Makes the folder and removes unfinished ones that a killed runner left in it. */
  constructor(folder: string) {
    this.#blobs = new BlobStore(join(folder, 'files'));
    this.#trees = join(folder, 'trees');
    mkdirSync(this.#trees, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.#trees).filter((entry) => HALF_MADE.test(entry)))
      rmSync(join(this.#trees, name), { recursive: true, force: true });
  }

  /**
   * Digests of files that are not uploaded yet, without duplicates. Errors: INVALID_REQUEST, DIGEST_MISMATCH for a
   * wrong size.
   */
  findMissing(files: readonly SourceFile[]): Sha256[] {
    checkSizes(files, (file) => this.#sizeOf(file));
    return [...new Set(files.map((file) => parseSha256(file.sha256)))].filter(
      (sha256) => !this.#blobs.markUsed(sha256),
    );
  }

  /** Size of a complete file; a truncated one is set aside, and must be uploaded again. */
  #sizeOf({ sha256: name, sizeBytes }: SourceFile): number | undefined {
    const sha256 = parseSha256(name);
    const size = this.#blobs.size(sha256);
    return size === undefined || BigInt(size) === sizeBytes ? size : this.#blobs.read(sha256)?.byteLength;
  }

  /**
   * Stores files of a folder of this host. Returns false if a file has changed; some files are then missing. Errors:
   * DISK_FULL.
   */
  keepFiles(folder: string, files: readonly SourceFile[]): boolean {
    return files.every(
      ({ path, sha256 }) =>
        this.#blobs.markUsed(parseSha256(sha256)) || this.#blobs.put(readFileSync(join(folder, path))) === sha256,
    );
  }

  /** A file's bytes, after checking their digest. Errors: SOURCES_MISSING. */
  read(sha256: Sha256): Buffer {
    const bytes = this.#blobs.read(sha256);
    if (bytes) return bytes;
    throw new FlashcoreError('SOURCES_MISSING', { missing: '1' }, `Upload the file first: ${sha256} is not here`);
  }

  /** A file to upload piece by piece. Errors: DISK_FULL. */
  openUpload(): BlobWriter {
    return this.#blobs.openWriter();
  }

  /**
   * Writes the files of a tree into a folder, once for each content. Errors: INVALID_REQUEST, SOURCES_MISSING,
   * DIGEST_MISMATCH, DISK_FULL.
   */
  materialize(tree: SourceTree): MaterializedTree {
    const violations = sourceTreeViolations(tree.files, 'kernel.tree.files');
    if (violations.length > 0) throw invalidRequest(...violations);
    const digest = treeDigest(tree);
    const folder = join(this.#trees, digest);
    if (!isFolder(folder) || treeDigest({ files: readTree(folder, { which: 'all' }) }) !== digest)
      this.#layOut(tree.files, folder);
    checkSizes(tree.files, ({ path }) => statSync(join(folder, path)).size);
    markUsed(folder);
    return { folder, digest };
  }

  #layOut(files: readonly SourceFile[], folder: string): void {
    const contents = this.#readAll(files);
    const temporary = `${folder}.${randomUUID()}`;
    try {
      for (const [path, bytes] of contents) {
        mkdirSync(dirname(join(temporary, path)), { recursive: true });
        writeFileSync(join(temporary, path), bytes, { flag: 'wx' });
      }
      setAside({ store: this.#trees, path: folder });
      renameSync(temporary, folder);
    } catch (error) {
      rmSync(temporary, { recursive: true, force: true });
      throw storageError(error, 'lay out the kernel folder');
    }
  }

  #readAll(files: readonly SourceFile[]): Map<string, Buffer> {
    const contents = new Map<string, Buffer>();
    for (const { path, sha256 } of files) {
      const bytes = this.#blobs.read(parseSha256(sha256));
      if (bytes) contents.set(path, bytes);
    }
    const missing = files.filter(({ path }) => !contents.has(path));
    if (missing.length > 0) {
      throw new FlashcoreError(
        'SOURCES_MISSING',
        { missing: String(missing.length) },
        `${missing.length} of ${files.length} files are not here, for example ${missing[0]?.path}: upload those that FindMissingSources names first`,
      );
    }
    checkSizes(files, ({ path }) => contents.get(path)?.byteLength);
    return contents;
  }
}

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Errors: DIGEST_MISMATCH if a file's size differs from the announced one; missing files are not checked. */
function checkSizes(files: readonly SourceFile[], sizeOf: (file: SourceFile) => number | undefined): void {
  for (const file of files) {
    const { path, sizeBytes, sha256 } = file;
    const size = sizeOf(file);
    if (size === undefined || BigInt(size) === sizeBytes) continue;
    throw new FlashcoreError(
      'DIGEST_MISMATCH',
      { path, sha256 },
      `${path} has ${size} bytes, the request says ${sizeBytes}: give the size that it was uploaded with`,
    );
  }
}

/** Sources and variant of a build. */
export interface KnownBuild {
  tree: SourceTree;
  variant: Variant;
}

/** Known builds by build_id, with the sources and the variant from which each can be made again. */
export class BuildStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Keeps the sources and variant of a build_id; a later build with the same id changes nothing. */
  keep(buildId: string, { tree, variant }: KnownBuild): void {
    this.#database.transaction(() =>
      this.#database
        .prepare('INSERT INTO builds (build_id, tree, variant, create_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING')
        .run(buildId, toBinary(SourceTreeSchema, tree), toBinary(VariantSchema, variant), Date.now()),
    );
  }

  find(buildId: string): KnownBuild | undefined {
    const row = this.#database.prepare('SELECT tree, variant FROM builds WHERE build_id = ?').get(buildId);
    return (
      row && {
        tree: fromBinary(SourceTreeSchema, row['tree'] as Uint8Array),
        variant: fromBinary(VariantSchema, row['variant'] as Uint8Array),
      }
    );
  }
}
