import { lstatSync, lutimesSync, mkdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning } from '@flashcore/shared/files';
import { untilAborted } from '../async.ts';
import { storageError } from '../store/storage-error.ts';

const LOOK_EVERY_MS = 50;
const RENEW_EVERY_MS = 1_000;
/** A claim that was not renewed for this long is abandoned, even if a process with its pid exists. */
const LASTS_MS = 10_000;

export interface CompileClaim extends Disposable {
  /** Whether another process had the claim first; its result may be stored by now. */
  readonly waited: boolean;
}

/**
 * Claims on compilations in a folder that several runners share: one runner compiles, and the others wait for its
 * result. A claim is a symbolic link to its owner's pid, made in one step. If a claim is lost, the only cost is a
 * second compilation.
 */
export class CompileClaims {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Waits while another process has the claim. Errors: DISK_FULL, STORE_UNAVAILABLE, the signal's reason. */
  async take(key: string, signal: AbortSignal): Promise<CompileClaim> {
    const path = join(this.#folder, key);
    for (let waited = false; ; waited = true) {
      if (claimed(path)) return { waited, [Symbol.dispose]: kept(path) };
      if (isAbandoned(path)) rmSync(path, { force: true });
      else await untilAborted(sleep(LOOK_EVERY_MS), signal);
    }
  }
}

function claimed(path: string): boolean {
  try {
    symlinkSync(String(process.pid), path);
    return true;
  } catch (error) {
    if (isNodeError(error, 'EEXIST')) return false;
    throw storageError(error, 'claim a compilation');
  }
}

/** Renews a claim until the returned function is called. */
function kept(path: string): () => void {
  const timer = setInterval(() => {
    try {
      lutimesSync(path, new Date(), new Date());
    } catch (error) {
      // ENOENT: another process removed the claim as abandoned, because this process had been suspended for too long.
      if (!isNodeError(error, 'ENOENT')) throw error;
    }
  }, RENEW_EVERY_MS).unref();
  return () => {
    clearInterval(timer);
    rmSync(path, { force: true });
  };
}

function isAbandoned(path: string): boolean {
  try {
    return !isRunning(Number(readlinkSync(path))) || Date.now() - lstatSync(path).mtimeMs > LASTS_MS;
  } catch (error) {
    if (isNodeError(error, 'ENOENT')) return false;
    throw error;
  }
}

const isNodeError = (error: unknown, code: string): boolean => (error as NodeJS.ErrnoException).code === code;
