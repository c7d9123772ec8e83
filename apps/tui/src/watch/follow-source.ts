/** Watch mode: every saved version of a kernel folder is run; a newer one supersedes what still runs for the older. */
import { statSync, watch } from 'node:fs';
import { type RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, type KernelReference } from '@flashcore/shared/contract';
import { SOURCE_NAME, treeDigest } from '@flashcore/shared/kernels';

export interface FollowSourceOptions {
  readonly folder: string;
  /** Sends the folder's changed files. Errors: INVALID_MANIFEST and others, which are shown; watching goes on. */
  readonly upload: (folder: string) => Promise<KernelReference>;
  /** Runs a version to its end, or until the signal: then a newer one is there, or watching ends. */
  readonly run: (kernel: KernelReference, signal: AbortSignal) => Promise<void>;
  readonly onProblem: (error: unknown) => void;
  /** Ends watching. */
  readonly signal: AbortSignal;
  readonly debounceMs?: number;
}

// Editors write a file in several steps, and several files one after the other.
const DEBOUNCE_MS = 150;

/** Whether there is a folder to watch. */
export const isFolder = (folder: string): boolean =>
  statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Runs the folder as it is, then every version of it, until the signal. Throws INVALID_REQUEST when there is no such
 * folder.
 */
export async function followSource({
  folder,
  upload,
  run,
  onProblem,
  signal,
  debounceMs = DEBOUNCE_MS,
}: FollowSourceOptions): Promise<void> {
  if (!isFolder(folder))
    throw new FlashcoreError('INVALID_REQUEST', { folder }, `Wanted a kernel folder to watch; ${folder} is none`);
  let current: { digest: string; abort: AbortController; ended: Promise<void> } | undefined;
  const changes = changesOf(folder, { debounceMs, signal });
  while (!(await changes.next()).done) {
    try {
      const kernel = await upload(folder);
      const digest = kernel.source.case === 'tree' ? treeDigest(kernel.source.value) : '';
      // Saved without a change.
      if (digest === current?.digest) continue;
      current?.abort.abort();
      await current?.ended;
      if (signal.aborted) break;
      const abort = new AbortController();
      current = { digest, abort, ended: run(kernel, abort.signal).catch(onProblem) };
    } catch (error) {
      onProblem(error);
    }
  }
}

/** Once at the beginning, then once for each group of changes to sources. */
async function* changesOf(
  folder: string,
  { debounceMs, signal }: { debounceMs: number; signal: AbortSignal },
): AsyncGenerator<void> {
  let [timer, changed]: [NodeJS.Timeout | undefined, boolean] = [undefined, true];
  let wake = (): void => undefined;
  let failure: Error | undefined;
  const watcher = watch(folder, { recursive: true, signal });
  watcher.on('error', (error) => {
    failure = error;
    wake();
  });
  watcher.on('change', (_kind, name) => {
    if (name !== null && !SOURCE_NAME.test(String(name).split('/').at(-1) ?? '')) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      changed = true;
      wake();
    }, debounceMs);
  });
  signal.addEventListener('abort', () => wake());
  try {
    while (!signal.aborted) {
      if (failure !== undefined) throw failure;
      if (changed) {
        changed = false;
        yield;
      } else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    clearTimeout(timer);
    watcher.close();
  }
}

/** Ends the job that a request started, whether or not its first event has come. */
export async function cancelRequest(
  client: Pick<RunnerClient, 'listJobs' | 'cancelJob'>,
  requestId: string,
): Promise<void> {
  const { jobs } = await client.listJobs({ pageSize: 200 });
  const job = jobs.find((candidate) => candidate.requestId === requestId);
  if (job !== undefined) await client.cancelJob({ name: job.name });
}
