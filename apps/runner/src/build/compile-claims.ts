import { lstatSync, lutimesSync, mkdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning } from '@flashcore/shared/files';
import { untilAborted } from '../async.ts';
import { storageError } from '../store/storage-error.ts';

const LOOK_EVERY_MS = 50;
const RENEW_EVERY_MS = 1_000;
/** A claim that was not renewed for so long has no owner, whatever runs under its pid. */
const LASTS_MS = 10_000;

export interface CompileClaim extends Disposable {
  /** Another had it first: what was wanted may be there now. */
  readonly waited: boolean;
}

/**
 * Who compiles what, in a folder that several runners share: one does, the others wait for what it keeps. A claim is a
 * link whose target is its owner's pid, made in one step. One that is lost costs a second compilation, and no more.
 */
export class CompileClaims {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Waits while another has the claim. Errors: DISK_FULL, STORE_UNAVAILABLE, the signal's reason. */
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

/** Renews a claim until what it returns is called. */
function kept(path: string): () => void {
  const timer = setInterval(() => {
    try {
      lutimesSync(path, new Date(), new Date());
    } catch (error) {
      // Taken for abandoned, when this process had stood still for long.
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
