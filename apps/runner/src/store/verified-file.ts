import { createHash, randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
} from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestOf, sha256Of, type Sha256 } from '@flashcore/shared/contract';
import { storageError } from './storage-error.ts';

/** A file of a store, in its folder or in a subfolder. */
export interface StoredPlace {
  store: string;
  path: string;
}

/** Subfolder for whatever was found in a file's place but is not that file. Retention treats it like other files. */
const QUARANTINE = 'quarantine';

/** Does not follow links, and does not wait for the writer of a pipe. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
const ABSENT = ['ENOENT', 'ENOTDIR'];
/** Error codes of open() for a link or a socket. */
const NO_FILE = ['ELOOP', 'EMLINK', 'ENXIO'];
const HASH_PIECE_BYTES = 1024 * 1024;

/** Size of a regular file; undefined if the place has no such file. */
export function sizeOfStored(place: StoredPlace): number | undefined {
  if (strangeFolder(place) !== undefined) return undefined;
  const found = lstatSync(place.path, { throwIfNoEntry: false });
  return found?.isFile() ? found.size : undefined;
}

/**
 * A file's bytes, after checking their digest. Anything else in its place is moved to the store's quarantine, never
 * deleted; the result is then undefined, as for a missing file. Errors: the system's; nothing was moved then.
 */
export function readVerified(place: StoredPlace, sha256: Sha256): Buffer | undefined {
  const descriptor = openRegular(place);
  const bytes = typeof descriptor === 'number' ? bytesOf(descriptor) : undefined;
  if (bytes && sha256Of(bytes) === sha256) return bytes;
  if (descriptor !== 'absent') setAside(place);
  return undefined;
}

/** Like readVerified(), for a file to read in pieces: returns it open, so that the checked bytes are read. */
export async function openVerified(place: StoredPlace, sha256: Sha256): Promise<FileHandle | undefined> {
  if (sizeOfStored(place) === undefined) {
    if (openRegular(place) === 'foreign') setAside(place);
    return undefined;
  }
  const file = await open(place.path, READ_FLAGS);
  let found: Sha256 | undefined;
  try {
    found = await digestOfFile(file);
    if (found === sha256) return file;
  } finally {
    if (found !== sha256) await file.close();
  }
  setAside(place);
  return undefined;
}

async function digestOfFile(file: FileHandle): Promise<Sha256> {
  const hash = createHash('sha256');
  const piece = Buffer.alloc(HASH_PIECE_BYTES);
  for (let position = 0; ;) {
    const { bytesRead } = await file.read(piece, { position });
    if (bytesRead === 0) return digestOf(hash);
    hash.update(piece.subarray(0, bytesRead));
    position += bytesRead;
  }
}

/** Makes the folder for a new file and sets aside whatever is in the way. Errors: the system's. */
export function makeRoom(place: StoredPlace): boolean {
  const found = lstatSync(place.path, { throwIfNoEntry: false });
  if (strangeFolder(place) !== undefined || (found && !found.isFile())) setAside(place);
  return mkdirSync(dirname(place.path), { recursive: true, mode: 0o700 }) !== undefined;
}

/** Moves whatever is at a place to the quarantine. Errors: DISK_FULL, STORE_UNAVAILABLE. */
export function setAside(place: StoredPlace): void {
  try {
    const quarantine = ownFolder(join(place.store, QUARANTINE));
    renameSync(strangeFolder(place) ?? place.path, join(quarantine, randomUUID()));
  } catch (error) {
    if (!ABSENT.includes(codeOf(error))) throw storageError(error, 'set a damaged file aside');
  }
}

/**
 * Makes a folder of a store. A link in its place is removed: files moved or cleared through it would be outside the
 * store.
 */
export function ownFolder(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) unlinkSync(path);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}

/** The path of the folder between store and file if something else is there, for example a link. */
function strangeFolder({ store, path }: StoredPlace): string | undefined {
  const folder = dirname(path);
  const found = folder === store ? undefined : lstatSync(folder, { throwIfNoEntry: false });
  return found && !found.isDirectory() ? folder : undefined;
}

function openRegular(place: StoredPlace): number | 'absent' | 'foreign' {
  if (strangeFolder(place) !== undefined) return 'foreign';
  let descriptor: number;
  try {
    descriptor = openSync(place.path, READ_FLAGS);
  } catch (error) {
    if (ABSENT.includes(codeOf(error))) return 'absent';
    if (NO_FILE.includes(codeOf(error))) return 'foreign';
    throw error;
  }
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  return 'foreign';
}

function bytesOf(descriptor: number): Buffer {
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? '';
