/** Watch mode: runs every saved version of a kernel folder. A newer version supersedes the run of an older one. */
import { statSync, watch, type FSWatcher } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, type KernelReference } from '@flashcore/shared/contract';
import { readSourceTree, treeDigest } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';

interface FollowSourceOptions {
  readonly folder: string;
  /** Uploads the folder's changed files. Errors: INVALID_MANIFEST and others, which are shown; watching continues. */
  readonly upload: (folder: string) => Promise<KernelReference>;
  /** Runs a version until it ends or the signal aborts it, because there is a newer version or watching ends. */
  readonly run: (kernel: KernelReference, signal: AbortSignal) => Promise<void>;
  readonly onProblem: (error: unknown) => void;
  /** Called for each version that is saved after the initial one. */
  readonly onSave?: () => void;
  /** Aborted to end watching. */
  readonly signal: AbortSignal;
  readonly debounceMs?: number;
  readonly lookEveryMs?: number;
}

// Editors write a file in several steps, and several files one after the other, so a burst of events is one change.
const DEBOUNCE_MS = 150;
// Time between checks. The checks find the changes that the operating system's events miss; the events only reduce the
// delay.
const LOOK_EVERY_MS = 1_000;

/** True if there is a folder to watch. */
export const isFolder = (folder: string): boolean =>
  statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Runs the folder as it is, then every new version, until the signal. Throws INVALID_REQUEST if the folder does not
 * exist.
 */
export async function followSource(options: FollowSourceOptions): Promise<void> {
  const { folder, upload, run, onProblem, onSave, signal } = options;
  if (!isFolder(folder)) throw new FlashcoreError('INVALID_REQUEST', { folder }, `${folder}: no such folder to watch`);
  let current: { digest: string; abort: AbortController } | undefined;
  let ended = Promise.resolve();
  for await (const version of versionsOf(options)) {
    if ('problem' in version) {
      onProblem(version.problem);
      continue;
    }
    // The content equals the running version's again, after a version that could not be read.
    if (version.digest === current?.digest) continue;
    if (current !== undefined) onSave?.();
    try {
      const kernel = await upload(folder);
      current?.abort.abort();
      await ended;
      if (signal.aborted) break;
      const abort = new AbortController();
      current = { digest: version.digest, abort };
      ended = run(kernel, abort.signal).catch(onProblem);
    } catch (error) {
      onProblem(error);
    }
  }
}

/** The state of the folder. If `key` differs, the folder has changed. */
type Look =
  | { readonly key: string; readonly digest: string; readonly isCutOff: boolean }
  | { readonly key: string; readonly problem: unknown };

const NEWLINE = 10;

async function look(folder: string): Promise<Look> {
  try {
    const { tree, contents } = await readSourceTree(folder);
    const digest = treeDigest(tree);
    return { key: digest, digest, isCutOff: [...contents.values()].some((bytes) => bytes.at(-1) !== NEWLINE) };
  } catch (problem) {
    return { key: errorText(problem), problem };
  }
}

/**
 * Yields the folder's state at the beginning, then every changed state. A change is yielded once two checks in a row
 * agree, because a file may be half written, and a folder may be missing while it is replaced. A file that is empty or
 * ends in the middle of a line is probably half written, so it must stay unchanged for longer.
 */
async function* versionsOf({
  folder,
  signal,
  debounceMs = DEBOUNCE_MS,
  lookEveryMs = LOOK_EVERY_MS,
}: FollowSourceOptions): AsyncGenerator<Look> {
  const events = new FolderEvents(folder);
  const settled = async (found: Look): Promise<Look> => {
    await wait('isCutOff' in found && found.isCutOff ? lookEveryMs : debounceMs);
    const again = await look(folder);
    return again.key === found.key || signal.aborted ? again : settled(again);
  };
  signal.addEventListener('abort', () => events.wake(), { once: true });
  try {
    let shown: string | undefined;
    while (!signal.aborted) {
      events.follow();
      const first = await look(folder);
      const found = shown === undefined || first.key === shown ? first : await settled(first);
      if (signal.aborted) return;
      if (found.key === shown) await events.next(lookEveryMs);
      else {
        shown = found.key;
        yield found;
      }
    }
  } finally {
    events.close();
  }
}

/** The operating system's events for a folder. An event only causes an earlier check. */
class FolderEvents {
  readonly #folder: string;
  #watcher: FSWatcher | undefined;
  #inode: number | undefined;
  #isNew = false;
  #wake: () => void = () => undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Watches the folder that has the name now. If a folder is replaced, the old watch belongs to the replaced folder.
   */
  follow(): void {
    const inode = statSync(this.#folder, { throwIfNoEntry: false })?.ino;
    if (inode === this.#inode && this.#watcher !== undefined) return;
    this.close();
    this.#inode = inode;
    if (inode === undefined) return;
    try {
      this.#watcher = watch(this.#folder, () => this.wake());
      this.#watcher.on('error', () => this.close());
    } catch {
      // There are no inotify watches left, or the folder has just disappeared. The regular check works without events.
      this.#watcher = undefined;
    }
  }

  wake(): void {
    this.#isNew = true;
    this.#wake();
  }

  /** Waits for the next event, at most for `milliseconds`. */
  async next(milliseconds: number): Promise<void> {
    if (!this.#isNew)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    this.#isNew = false;
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}

/** Cancels the job that a request started, even if its first event has not arrived yet. */
export async function cancelRequest(
  client: Pick<RunnerClient, 'listJobs' | 'cancelJob'>,
  requestId: string,
): Promise<void> {
  const { jobs } = await client.listJobs({ pageSize: 200 });
  const job = jobs.find((candidate) => candidate.requestId === requestId);
  if (job !== undefined) await client.cancelJob({ name: job.name });
}
