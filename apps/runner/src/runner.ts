import { statSync } from 'node:fs';
import { type CleanText, UsageError } from '@flashcore/shared/contract';
import { Quotas } from './access/quotas.ts';
import { DeviceReadings } from './device/readings.ts';
import { watchIdle } from './embedded.ts';
import { usdPerHour } from './experiment/cost.ts';
import { HostDescriber } from './host.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import { Jobs } from './jobs/jobs.ts';
import { serveMetrics } from './operation/prometheus.ts';
import { retainDaily } from './operation/retention.ts';
import { Tracing } from './operation/tracing.ts';
import { makePrivate, hidingFolder } from './private-data.ts';
import { openDoor, type RunnerDoor } from './runner-door.ts';
import type { RunnerOptions } from './serve-options.ts';
import { makePlanner } from './runner-planner.ts';
import { openStores } from './runner-stores.ts';
import { lockDirectory } from './store/directory-lock.ts';
import { storageError } from './store/storage-error.ts';
import { endsWithin } from './async.ts';
import type { WriteState } from './store/write-state.ts';

/** A running daemon. */
export interface Runner {
  /** "host:port" or "unix:/path". */
  readonly address: string;
  /** Resolves when the runner has ended, by stop() or, if embedded, by itself. */
  readonly ended: Promise<void>;
  /**
   * Refuses new work, lets running jobs finish within the grace period, and ends. A second call ends the jobs at once.
   * A gateway leaves its jobs and pilots to its successor.
   */
  stop(): void;
}

/**
 * Starts a runner on its data directory. Throws DirectoryInUse, AddressInUse, UsageError, FlashcoreError (DISK_FULL).
 */
export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { dataDirectory, logger, embedded, version } = options;
  requireKernels(options.kernelsDirectory);
  makePrivate(dataDirectory);
  const cleanText = hidingFolder(dataDirectory);
  const undo = new DisposableStack();
  try {
    undo.defer(lockDirectory(dataDirectory));
    const stores = openStores(options, undo);
    const { database, history, writes } = stores;
    const planner = await makePlanner(options, stores, undo);
    // A runner that can't open its address ends, and must leave the jobs of the one before in the queue.
    let isServing = false;
    const jobs = new Jobs({
      database,
      history,
      devices: () => planner.devices(),
      capacity: planner.capacity && ((deviceId) => planner.capacity!(deviceId)),
      bodyAgain: planner.bodyAgain && ((kept, queued) => planner.bodyAgain!(kept, queued)),
      mayStart: () => isServing,
      keptBody: planner.keptBody && ((kept, deviceId) => planner.keptBody!(kept, deviceId)),
      maxQueued: options.maxQueued,
      logger,
      cleanText,
      writes,
      onEnded: (name) => tracing?.send(name),
    });
    const tracing: Tracing | undefined =
      options.traces && new Tracing({ target: options.traces, jobs, version, logger });
    const { kernels, sources, artifacts, leaderboard, decisions, synced } = stores;
    const host = describerOf(options, planner, cleanText);
    const quotas = new Quotas(options.quotas);
    const { ownerOf = () => undefined } = options;
    const services = {
      jobs,
      planner,
      kernels,
      sources,
      artifacts,
      history,
      leaderboard,
      decisions,
      host,
      quotas,
      ownerOf,
    };
    const door = await openDoor(options, { services, cleanText, writes, synced }, undo);
    const { listener } = door;
    if (options.metrics?.kind === 'tcp') {
      const metrics = await serveMetrics(options.metrics, { jobs, planner, connections: () => listener.connections });
      undo.defer(() => metrics.close());
      logger.info({ address: metrics.address }, 'metrics');
    }
    undo.defer(
      retainDaily(
        { dataDirectory, database, policy: options.retention },
        { inUseSinceMs: () => jobs.oldestActiveMs, logger },
      ),
    );
    await planner.begin?.(jobs);
    isServing = true;
    jobs.startWaiting();
    const close = (): void => kept.dispose();
    const { ended, stop } = serveUntilStopped(options, { door, jobs, planner, writes, tracing, close });
    if (embedded)
      undo.defer(
        watchIdle({
          isIdle: () => listener.connections === 0 && jobs.active === 0,
          seconds: options.idleExitSeconds,
          onIdle: stop,
        }),
      );
    const kept = undo.move();
    return { address: listener.address, ended, stop };
  } catch (error) {
    undo.dispose();
    throw storageError(error, 'start');
  }
}

/** Every build takes headers from this folder. Without it, each job would end as a fault of the runner. */
function requireKernels(folder: string): void {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`${folder} is not a folder: give --kernels the folder of the runner's kernels`);
}

function describerOf(options: RunnerOptions, planner: JobPlanner, cleanText: CleanText): HostDescriber {
  const { version, buildId, dataDirectory, embedded, logger } = options;
  const readings = new DeviceReadings();
  return new HostDescriber({
    version,
    buildId,
    dataDirectory,
    embedded,
    describeTools: () => planner.describeTools(),
    isolation: () => planner.isolation(),
    // Readings of this host are not added to the GPUs of a cluster's nodes.
    withReadings: (devices) => (planner.fleet ? [...devices] : readings.beside(devices)),
    fleet: () => planner.fleet?.(),
    usdPerHour: (device) => usdPerHour(device, options.rates),
    cleanText,
    logger,
  });
}

/** Time limit for calls that are still open when all jobs have ended, so that watchers can read the last events. */
const CALLS_GRACE_MS = 2_000;
/**
 * How long to wait for killed workers and compilers to end: a worker that hangs in its driver must not keep the runner
 * from ending. Longer than the workers' own limits.
 */
const WORKERS_GRACE_MS = 7_000;

interface Running {
  door: RunnerDoor;
  jobs: Jobs;
  planner: JobPlanner;
  writes: WriteState;
  tracing: Tracing | undefined;
  /** Closes what is still open after the last call. */
  close: () => void;
}

interface RunnerEnd {
  readonly ended: Promise<void>;
  stop: () => void;
}

/** Accepts work until the runner is stopped, then ends it. */
function serveUntilStopped(
  { logger, graceSeconds }: Pick<RunnerOptions, 'logger' | 'graceSeconds'>,
  { door, jobs, planner, writes, tracing, close }: Running,
): RunnerEnd {
  const ended = Promise.withResolvers<void>();
  let stopping = false;
  // Reads and watches continue while nothing can be stored.
  door.setServing(writes.failure === undefined);
  writes.onChange((writable) => door.setServing(writable && !stopping));
  const end = async (): Promise<void> => {
    if (!planner.keptBody) await jobs.drain(graceSeconds * 1_000);
    const closed = planner.close();
    // Another runner will continue these jobs, so they are left unfinished here.
    if (planner.keptBody) jobs.leave();
    if (!(await endsWithin(closed, WORKERS_GRACE_MS)))
      logger.warn('a worker or compiler does not end: it is left behind');
    await door.listener.close(CALLS_GRACE_MS);
    await tracing?.close();
    close();
  };
  const stop = (): void => {
    if (stopping) return planner.keptBody ? undefined : jobs.stopAll();
    stopping = true;
    door.setServing(false);
    logger.info({ activeJobs: jobs.active }, 'ending');
    end().then(ended.resolve, ended.reject);
  };
  return { ended: ended.promise, stop };
}
