import { createHash } from 'node:crypto';
import { lstatSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { makeFolder, whyUnwritable } from '@flashcore/shared/files';
import { parseListenAddress, type ListenAddress } from './rpc/address.ts';
import { UsageError } from '@flashcore/shared/contract';

/**
 * The socket of a data directory's embedded runner: a short path in a folder that is private to its user. Throws
 * UsageError if another user owns that folder.
 */
export function embeddedAddress(dataDirectory: string, environment: NodeJS.ProcessEnv = process.env): ListenAddress {
  const name = `${createHash('sha256').update(dataDirectory).digest('hex').slice(0, 16)}.sock`;
  const folder = privateFolder(environment['XDG_RUNTIME_DIR'] ?? tmpdir());
  return parseListenAddress(`unix:${join(folder, name)}`);
}

function privateFolder(parent: string): string {
  const { uid } = userInfo();
  // 60 bytes leave room for the names below. A longer path, such as macOS's per-user folder, is replaced with /tmp.
  const folder = join(Buffer.byteLength(parent) <= 60 ? parent : '/tmp', `flashcore-${uid}`);
  makeSocketFolder(folder);
  const found = lstatSync(folder);
  if (found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0) return folder;
  throw new UsageError(
    `${folder} must be a folder of user ${uid} that nobody else can enter: remove it, or give an --address`,
  );
}

function makeSocketFolder(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    const why = whyUnwritable(error);
    if (why === undefined) throw error;
    throw new UsageError(
      `The runner's socket can't be in ${folder} (${why}): set XDG_RUNTIME_DIR or TMPDIR to a folder that this user can write to, or give an --address`,
      { cause: error },
    );
  }
}

/** What later commands need to find a runner. */
export interface RunnerFile {
  pid: number;
  /** "host:port" or "unix:/path". */
  address: string;
  buildId: string;
  /** Path of its main.js, because another checkout with the same build has its own kernels. */
  program: string;
  version: string;
  embedded: boolean;
}

/** Writes runner.json in the data directory in one step, and returns a function that removes it. */
export function announceRunner(dataDirectory: string, runner: RunnerFile): () => void {
  const path = join(dataDirectory, 'runner.json');
  writeFileSync(`${path}.new`, `${JSON.stringify(runner)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
  return () => rmSync(path, { force: true });
}

interface IdleWatch {
  isIdle: () => boolean;
  seconds: number;
  onIdle: () => void;
}

/** Calls `onIdle` once `isIdle` has been true for `seconds` without a break. Returns a function that ends the watch. */
export function watchIdle({ isIdle, seconds, onIdle }: IdleWatch): () => void {
  const intervalMs = Math.min(1_000, (seconds * 1_000) / 4);
  let idleSince = performance.now();
  const timer = setInterval(() => {
    if (!isIdle()) idleSince = performance.now();
    else if (performance.now() - idleSince >= seconds * 1_000) {
      clearInterval(timer);
      onIdle();
    }
  }, intervalMs);
  return () => clearInterval(timer);
}
