import { lstatSync, rmSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { JobState, FlashcoreError } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import { BuildStore } from '../store/sources.ts';
import type { Database } from '../store/database.ts';
import { DecisionStore } from '../store/decisions.ts';

const DAY_MS = 24 * 3600 * 1000;
/** Files used within this time are never removed, because a request that is about to start may name them. */
const FRESH_MS = 3600 * 1000;

/** Limits on what a runner keeps. Infinity: forever, without limit. Jobs, results and the history are always kept. */
export interface RetentionPolicy {
  /** Days to keep the events of ended jobs, except the last event, which has the result. */
  eventsDays: number;
  /** Days to keep artifacts, uploaded sources and cached builds after their last use. */
  filesDays: number;
  /** Total size of artifacts, GiB; the least recently used go first. */
  artifactsGib: number;
}

export const KEEP_ALL: RetentionPolicy = { eventsDays: Infinity, filesDays: Infinity, artifactsGib: Infinity };

export interface Share {
  count: number;
  bytes: number;
}

/** Amounts that were removed, or would be in a dry run. */
export interface Retention {
  events: Share & { jobs: number };
  artifacts: Share;
  sources: Share;
  builds: Share;
}

export interface RetentionOptions {
  dataDirectory: string;
  database: Database;
  policy: RetentionPolicy;
  /** Reports what would be removed, and removes nothing. */
  dryRun: boolean;
  /** Files used since this time are kept. It is the creation time of the oldest unfinished job. */
  inUseSinceMs?: number | undefined;
  nowMs?: number;
}

interface StoredFile {
  path: string;
  bytes: number;
  usedMs: number;
}

/** Removes everything that the policy does not keep, in small steps, so that the runner keeps serving. */
export async function applyRetention({
  dataDirectory,
  database,
  policy,
  dryRun,
  inUseSinceMs = Infinity,
  nowMs = Date.now(),
}: RetentionOptions): Promise<Retention> {
  const keepSinceMs = Math.min(nowMs - FRESH_MS, inUseSinceMs);
  const unusedSinceMs = Math.min(nowMs - policy.filesDays * DAY_MS, keepSinceMs);
  const old = (files: StoredFile[]): StoredFile[] => files.filter(({ usedMs }) => usedMs < unusedSinceMs);
  const pinned = championSources(database);
  const artifacts = await listFiles(join(dataDirectory, 'artifacts'), { depth: 2 });
  const sources = [
    ...(await listFiles(join(dataDirectory, 'sources/files'), { depth: 2 })),
    ...(await listFiles(join(dataDirectory, 'sources/trees'), { depth: 1 })),
  ];
  const builds = await listFiles(join(dataDirectory, 'builds/entries'), { depth: 1 });
  const remove = async (files: StoredFile[]): Promise<Share> => {
    const gone = { count: 0, bytes: 0 };
    for (const file of files) {
      if (!dryRun && !removeUnused(file)) continue;
      gone.count += 1;
      gone.bytes += file.bytes;
      await nextTurn();
    }
    return gone;
  };
  return {
    events: await trimEvents(database, { endedBeforeMs: nowMs - policy.eventsDays * DAY_MS, dryRun }),
    artifacts: await remove([
      ...old(artifacts),
      ...overSize(
        artifacts.filter(({ usedMs }) => usedMs >= unusedSinceMs),
        policy.artifactsGib * 1024 ** 3,
        keepSinceMs,
      ),
    ]),
    sources: await remove(old(sources).filter(({ path }) => !pinned.has(digestOf(path)))),
    builds: await remove(old(builds)),
  };
}

/** Digests of the files that champions are built from: without them nothing could be compared with a champion. */
function championSources(database: Database): Set<string> {
  const builds = new BuildStore(database);
  const champions = new DecisionStore(database).champions();
  return new Set(
    champions.flatMap(({ buildId }) => builds.find(buildId)?.tree.files.map(({ sha256 }) => sha256) ?? []),
  );
}

/** A file is stored under the digest of its content; the first two digits are the folder's name. */
const digestOf = (path: string): string => `${basename(dirname(path))}${basename(path)}`;

/**
 * Checks a file's time again and removes it in the same turn of the event loop, because a job may have started to need
 * it since it was listed.
 */
function removeUnused({ path, usedMs }: StoredFile): boolean {
  if (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs !== usedMs) return false;
  rmSync(path, { recursive: true });
  return true;
}

/** The least recently used files whose removal brings the total down to `maxBytes`. */
function overSize(files: StoredFile[], maxBytes: number, keepSinceMs: number): StoredFile[] {
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const going: StoredFile[] = [];
  for (const file of files.toSorted((a, b) => a.usedMs - b.usedMs)) {
    if (bytes <= maxBytes || file.usedMs >= keepSinceMs) break;
    bytes -= file.bytes;
    going.push(file);
  }
  return going;
}

/** Keeps only the last event of ended jobs, which has the result; first_sequence then tells watchers. */
async function trimEvents(
  database: Database,
  { endedBeforeMs, dryRun }: { endedBeforeMs: number; dryRun: boolean },
): Promise<Retention['events']> {
  if (!Number.isFinite(endedBeforeMs)) return { jobs: 0, count: 0, bytes: 0 };
  const jobs = database
    .prepare('SELECT id FROM jobs WHERE state = ? AND end_ms < ? AND first_sequence < last_sequence')
    .all(JobState.ENDED, endedBeforeMs) as { id: number }[];
  const going = 'FROM events WHERE job_id = ? AND sequence < (SELECT last_sequence FROM jobs WHERE id = ?)';
  const found = { jobs: jobs.length, count: 0, bytes: 0 };
  for (const { id } of jobs) {
    const { count, bytes } = database
      .prepare(`SELECT COUNT(*) AS count, COALESCE(SUM(LENGTH(event)), 0) AS bytes ${going}`)
      .get(id, id) as unknown as Share;
    found.count += count;
    found.bytes += bytes;
    if (dryRun) continue;
    database.transaction(() => {
      database.prepare(`DELETE ${going}`).run(id, id);
      database.prepare('UPDATE jobs SET first_sequence = last_sequence WHERE id = ?').run(id);
    });
    await nextTurn();
  }
  return found;
}

/**
 * Lists files, or whole folders, at a depth below a folder. Entries that disappear meanwhile are left out; a link,
 * which a quarantine may have, is not followed.
 */
async function listFiles(folder: string, { depth }: { depth: number }): Promise<StoredFile[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(ignoreMissing);
  const files: StoredFile[] = [];
  for (const entry of entries ?? []) {
    const path = join(folder, entry.name);
    // Unfinished uploads are too young for any limit; those of a killed runner are removed at the start.
    if (entry.name === 'incoming') continue;
    if (depth > 1 && entry.isDirectory()) files.push(...(await listFiles(path, { depth: depth - 1 })));
    else if (depth === 1) files.push(...(await describe(path)));
  }
  return files;
}

async function describe(path: string): Promise<StoredFile[]> {
  const found = await lstat(path).catch(ignoreMissing);
  if (!found) return [];
  const inside = found.isDirectory()
    ? await readdir(path, { recursive: true, withFileTypes: true }).catch(ignoreMissing)
    : undefined;
  const sizes = await Promise.all(
    (inside ?? [])
      .filter((entry) => entry.isFile())
      .map(async (entry) => (await lstat(join(entry.parentPath, entry.name)).catch(ignoreMissing))?.size ?? 0),
  );
  return [{ path, bytes: inside ? sizes.reduce((sum, size) => sum + size, 0) : found.size, usedMs: found.mtimeMs }];
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

/** Applies the policy at once, then daily, unless it keeps everything. Returns a function that stops this. */
export function retainDaily(
  options: Omit<RetentionOptions, 'dryRun' | 'inUseSinceMs' | 'nowMs'>,
  { inUseSinceMs, logger }: { inUseSinceMs: () => number | undefined; logger: Logger },
): () => void {
  if (keepsAll(options.policy)) return () => undefined;
  const clean = (): void => {
    applyRetention({ ...options, dryRun: false, inUseSinceMs: inUseSinceMs() }).then(
      (removed) => logger.info({ removed }, 'retention'),
      (error: unknown) =>
        logger.error(
          { err: error, ...(error instanceof FlashcoreError && { reason: error.reason }) },
          'retention failed',
        ),
    );
  };
  clean();
  const timer = setInterval(clean, DAY_MS);
  return () => clearInterval(timer);
}

const keepsAll = (policy: RetentionPolicy): boolean => Object.values(policy).every((limit) => limit === Infinity);
