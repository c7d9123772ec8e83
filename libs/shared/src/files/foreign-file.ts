/** Files that somebody else may have put where they lie. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { constants as system } from 'node:os';

const MIB = 2 ** 20;

/** More than what people write by hand has: settings, manifests, certificates. */
export const HAND_WRITTEN_BYTES = MIB;

/**
 * A file's bytes, at most so many. Only a regular file is read: a pipe would hold the program until somebody writes to
 * it, and a device has no end. Errors: the system's, and in its manner EFTYPE for what is no regular file, EFBIG.
 */
export function readForeignFile(path: string, most: number): Buffer {
  // Opening a pipe waits for its writer otherwise.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    requireRegular(fstatSync(descriptor), path);
    return readAtMost(descriptor, path, most);
  } finally {
    closeSync(descriptor);
  }
}

/** As above, as text; what is no UTF-8 becomes "�". */
export const readForeignText = (path: string, most: number): string => readForeignFile(path, most).toString('utf8');

/** Why a file can't be read, for a text of the caller's own: the system's code where it says enough. */
export function whyUnreadable(error: unknown): string {
  const { code = String(error), message } = error as NodeJS.ErrnoException;
  return code === 'EFTYPE' || code === 'EFBIG' ? message.replace(/^\w+: /, '').replace(/, read '.*$/, '') : code;
}

function requireRegular(found: Stats, path: string): void {
  if (found.isDirectory()) throw systemError('EISDIR', 'illegal operation on a directory', path);
  if (!found.isFile()) throw systemError('EFTYPE', 'a pipe or a device, and only a file is read', path);
}

function readAtMost(descriptor: number, path: string, most: number): Buffer {
  const chunks: Buffer[] = [];
  // A file grows while it is read, and some say that they are empty: what counts is what comes.
  for (let bytes = 0; ;) {
    const chunk = Buffer.allocUnsafe(Math.min(MIB, most + 1 - bytes));
    const length = readSync(descriptor, chunk);
    if (length === 0) return Buffer.concat(chunks, bytes);
    chunks.push(chunk.subarray(0, length));
    bytes += length;
    if (bytes > most) throw systemError('EFBIG', `more than ${sizeText(most)}`, path);
  }
}

const sizeText = (bytes: number): string => (bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / 1024} KiB`);

/** As Node makes them of what the system says. */
function systemError(code: 'EISDIR' | 'EFTYPE' | 'EFBIG', what: string, path: string): NodeJS.ErrnoException {
  // EFTYPE has a number on some systems only.
  const errno = -(code === 'EFTYPE' ? system.errno.EINVAL : system.errno[code]);
  return Object.assign(new Error(`${code}: ${what}, read '${path}'`), { code, errno, syscall: 'read', path });
}
