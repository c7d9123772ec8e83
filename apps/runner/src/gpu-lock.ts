import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pause } from './async.ts';
import { DirectoryInUse, lockDirectory } from './store/directory-lock.ts';
import { UsageError } from '@flashcore/shared/contract';

export interface GpuLockOptions {
  /** A folder on the node that is private to this user. */
  scratch: string;
  /** Slurm's environment: SLURM_JOB_GPUS or CUDA_VISIBLE_DEVICES, and SLURMD_NODENAME. */
  environment: NodeJS.ProcessEnv;
  /** How long the GPU's previous process may take to end; default one minute. */
  withinMs?: number;
}

const WITHIN_MS = 60_000;
const AGAIN_MS = 500;

/**
 * Locks a pilot's GPUs for this process, and returns a function that unlocks them; they are also unlocked when the
 * process ends. The lock is needed because Slurm may assign a GPU on which the previous job still runs, after the node
 * was declared down and came back. Errors: UsageError if a GPU stays locked.
 */
export async function lockGpus({ scratch, environment, withinMs = WITHIN_MS }: GpuLockOptions): Promise<() => void> {
  const node = environment['SLURMD_NODENAME'] ?? '';
  const taken = new DisposableStack();
  try {
    for (const gpu of gpusOf(environment['SLURM_JOB_GPUS'] ?? environment['CUDA_VISIBLE_DEVICES'] ?? '')) {
      const folder = join(scratch, 'gpus', `${node}-${gpu}`.replace(/[^\w.-]/g, '_'));
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      taken.defer(await lockWithin(folder, gpu, withinMs));
    }
  } catch (error) {
    taken.dispose();
    throw error;
  }
  return () => taken.dispose();
}

/** Parses "0", "0,2" or "0-2". Each GPU is locked separately, because two pilots' lists may overlap in one GPU. */
function gpusOf(text: string): string[] {
  const gpus = text.split(',').flatMap((part) => {
    const [, first, last] = /^(\d{1,3})-(\d{1,3})$/.exec(part.trim()) ?? [];
    if (first === undefined) return part.trim() === '' ? [] : [part.trim()];
    return Array.from({ length: Math.max(0, Number(last) - Number(first) + 1) }, (_, index) =>
      String(Number(first) + index),
    );
  });
  // Always in the same order, so that two pilots never wait for each other.
  return [...new Set(gpus)].toSorted();
}

async function lockWithin(folder: string, gpu: string, withinMs: number): Promise<() => void> {
  for (const start = performance.now(); ;) {
    try {
      return lockDirectory(folder);
    } catch (error) {
      if (!(error instanceof DirectoryInUse)) throw error;
      if (performance.now() - start > withinMs)
        throw new UsageError(`End the process that has GPU ${gpu} of this node (${folder}): ${error.message}`);
      await pause(Math.min(AGAIN_MS, withinMs));
    }
  }
}
