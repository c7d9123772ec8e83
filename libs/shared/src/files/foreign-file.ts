/** Reads files that somebody else may have put there. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { constants as system } from 'node:os';

const MIB = 2 ** 20;

/** Larger than any file that people write by hand: settings, manifests, certificates. */
export const HAND_WRITTEN_BYTES = MIB;

/**
 * Reads a file of at most `most` bytes. It must be a regular file: a pipe would block the program until somebody writes
 * to it, and a device never ends. Errors: the system's, and in the same form EFTYPE if the file is not regular, and
 * EFBIG.
 */
export function readForeignFile(path: string, most: number): Buffer {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const found = fstatSync(descriptor);
    requireRegular(found, path);
    return readAtMost(descriptor, path, { most, size: found.size });
  } finally {
    closeSync(descriptor);
  }
}

/** Like readForeignFile(), but as text; invalid UTF-8 becomes "�". */
export const readForeignText = (path: string, most: number): string => readForeignFile(path, most).toString('utf8');

/** Why a file cannot be read, for an error message: the system's code, or a text if the code says too little. */
export function whyUnreadable(error: unknown): string {
  const { code = String(error), message } = error as NodeJS.ErrnoException;
  return code === 'EFTYPE' || code === 'EFBIG' ? message.replace(/^\w+: /, '').replace(/, read '.*$/, '') : code;
}

function requireRegular(found: Stats, path: string): void {
  if (found.isDirectory()) throw systemError('EISDIR', 'illegal operation on a directory', path);
  if (!found.isFile()) throw systemError('EFTYPE', 'a pipe or a device, and only a file is read', path);
}

/** Most files are small. Node pools buffers of this size; allocating a MiB took longer than reading such a file. */
const CHUNK_BYTES = 4_000;

function readAtMost(descriptor: number, path: string, { most, size }: { most: number; size: number }): Buffer {
  const chunks: Buffer[] = [];
  // Reads until the end, because a file may grow meanwhile, and some files report size 0.
  for (let bytes = 0; ;) {
    const room = Math.max(CHUNK_BYTES, Math.min(MIB, size - bytes));
    const chunk = Buffer.allocUnsafe(Math.min(room, most + 1 - bytes));
    const length = readSync(descriptor, chunk);
    if (length === 0) return Buffer.concat(chunks, bytes);
    chunks.push(chunk.subarray(0, length));
    bytes += length;
    if (bytes > most) throw systemError('EFBIG', `more than ${sizeText(most)}`, path);
  }
}

const sizeText = (bytes: number): string => (bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / 1024} KiB`);

/** Builds an error in the form in which Node reports system errors. */
function systemError(code: 'EISDIR' | 'EFTYPE' | 'EFBIG', what: string, path: string): NodeJS.ErrnoException {
  // Only some systems have a number for EFTYPE.
  const errno = -(code === 'EFTYPE' ? system.errno.EINVAL : system.errno[code]);
  return Object.assign(new Error(`${code}: ${what}, read '${path}'`), { code, errno, syscall: 'read', path });
}
