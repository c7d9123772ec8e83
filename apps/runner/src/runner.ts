import { DeviceReadings } from './device/readings.ts';
import { realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  guardCalls,
  identifyByCertificate,
  identifyByToken,
  identifyLocal,
  type Identify,
} from './access/authentication.ts';
import { readServerTls } from './access/certificates.ts';
import { Quotas } from './access/quotas.ts';
import { RevokedCertificates } from './access/revoked-certificates.ts';
import { TokenFile } from './access/token-file.ts';
import { announceRunner, embeddedAddress, watchIdle } from './embedded.ts';
import { endsWithin } from './async.ts';
import { hidingFolder } from './hidden-folder.ts';
import { HostDescriber } from './host.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import { Jobs } from './jobs/jobs.ts';
import { KernelCatalog } from './kernels.ts';
import type { Logger } from './log.ts';
import type { ServeOptions } from './options.ts';
import { PROTOCOL_VERSION } from './spec/benchmark-protocol.ts';
import { usdPerHour } from './experiment/cost.ts';
import type { PlannerOptions } from './experiment/planner.ts';
import { makePrivate } from './private-data.ts';
import { retainDaily } from './operation/daily.ts';
import { serveMetrics } from './operation/prometheus.ts';
import { Tracing, type TraceTarget } from './operation/tracing.ts';
import { BEGIN_WITHIN_MS, listen } from './rpc/listen.ts';
import { STREAM_LIMITS, type StreamLimits } from './rpc/open-streams.ts';
import { createRpcServer, type RpcServerOptions } from './rpc/server.ts';
import type { OwnerOf } from './rpc/services.ts';
import { noGroups, type ProcessGroups } from './sandbox/groups.ts';
import { UsageError } from './usage-error.ts';
import { ArtifactStore } from './store/artifacts.ts';
import { BuildStore } from './store/builds.ts';
import { openDatabase, refuseEmptyDatabase } from './store/database.ts';
import { lockDirectory } from './store/directory-lock.ts';
import { DecisionStore } from './store/decisions.ts';
import { readHeldOut } from './held-out-file.ts';
import { FleetTable } from './store/fleet-table.ts';
import { HistoryStore } from './store/history.ts';
import { Leaderboard } from './store/leaderboard.ts';
import { MeasuredSteps } from './store/measured-steps.ts';
import { SourceStore } from './store/sources.ts';
import { isStorageFailure, storageError } from './store/storage-error.ts';
import { clearTemporary } from './store/temporary.ts';
import { WriteState } from './store/write-state.ts';

export interface RunnerOptions extends ServeOptions {
  version: string;
  /** Digest of the runner's own code. */
  buildId: string;
  repositoryRoot: string;
  logger: Logger;
  createPlanner: (options: PlannerOptions) => JobPlanner;
  /** What keeps the processes of a box together, by the real name of the data folder; default: nothing. */
  findGroups?: (dataDirectory: string) => ProcessGroups;
  /** Besides the streams of one client, which are an option of serve. */
  streams?: Partial<StreamLimits>;
  /** How long a connection may take to begin; default 10 s. */
  beginWithinMs?: number;
  /** Default: each job is its caller's. */
  ownerOf?: OwnerOf;
  /** Where the spans of ended jobs go; default: nowhere. */
  traces?: TraceTarget | undefined;
}

/** A runner that serves. */
export interface Runner {
  /** "host:port" or "unix:/path". */
  readonly address: string;
  /** Resolves when it has ended, by stop() or, embedded, by itself. */
  readonly ended: Promise<void>;
  /**
   * Takes no new work, lets running jobs end within the grace, and ends. Called again: ends the jobs at once. A gateway
   * leaves its jobs and pilots to the next one.
   */
  stop(): void;
}

/**
 * Starts a runner on its data directory. Throws DirectoryInUse, AddressInUse, UsageError, FlashcoreError (DISK_FULL).
 */
export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { dataDirectory, logger, embedded, repositoryRoot, version, buildId } = options;
  requireKernels(options.kernelsDirectory);
  makePrivate(dataDirectory);
  const cleanText = hidingFolder(dataDirectory);
  const undo = new DisposableStack();
  try {
    undo.defer(lockDirectory(dataDirectory));
    clearTemporary(dataDirectory);
    refuseEmptyDatabase(dataDirectory);
    const database = undo.adopt(openDatabase(join(dataDirectory, 'flashcore.db')), (opened) => opened.close());
    const writes = undo.adopt(new WriteState({ database, dataDirectory, logger }), (state) => state.close());
    const history = new HistoryStore(database);
    const leaderboard = new Leaderboard(database, { protocol: PROTOCOL_VERSION });
    const decisions = new DecisionStore(database);
    const sources = new SourceStore(join(dataDirectory, 'sources'));
    // By its real name: a box shows its workers no link.
    const artifacts = new ArtifactStore(join(realpathSync(dataDirectory), 'artifacts'));
    const kernels = new KernelCatalog(options.kernelsDirectory, sources, new BuildStore(database));
    const isolation = isolationFor(options);
    // Within the lock: the groups of a folder are of one runner.
    const groups = undo.adopt(
      options.findGroups?.(realpathSync(dataDirectory)) ?? noGroups('none were asked for'),
      (made) => made.close(),
    );
    if (options.findGroups) logger[groups.limited ? 'info' : 'warn']({ detail: groups.detail }, 'cgroups of boxes');
    const planner = options.createPlanner({
      version,
      buildId,
      repositoryRoot,
      kernelsDirectory: options.kernelsDirectory,
      dataDirectory,
      artifacts,
      sources,
      kernels,
      decisions,
      steps: new MeasuredSteps(database),
      fleet: new FleetTable(database),
      logger,
      isolation,
      groups,
      emulator: options.emulator,
      emulatorEngine: options.emulatorEngine,
      headers: options.headers,
      rates: options.rates,
      heldOut: readHeldOut(options.heldOut),
      host: options.host,
    });
    // A gateway without a box compiles nothing: its nodes do, in theirs.
    if (isolation === 'required' && !options.fleet) await requireBox(planner, options);
    else if (!options.fleet) void warnWithoutBox(planner, logger);
    const jobs = new Jobs({
      database,
      history,
      devices: () => planner.devices(),
      capacity: planner.capacity && ((deviceId) => planner.capacity!(deviceId)),
      keptBody: planner.keptBody && ((kept, deviceId) => planner.keptBody!(kept, deviceId)),
      maxQueued: options.maxQueued,
      logger,
      cleanText,
      writes,
      onEnded: (name) => tracing?.send(name),
    });
    const tracing: Tracing | undefined =
      options.traces && new Tracing({ target: options.traces, jobs, version, logger });
    const readings = new DeviceReadings();
    const host = new HostDescriber({
      version,
      buildId,
      dataDirectory,
      embedded,
      describeTools: () => planner.describeTools(),
      isolation: () => planner.isolation(),
      // Nodes' GPUs are not this host's.
      withReadings: (devices) => (planner.fleet ? [...devices] : readings.beside(devices)),
      fleet: () => planner.fleet?.(),
      usdPerHour: (device) => usdPerHour(device, options.rates),
      cleanText,
      logger,
    });
    const quotas = new Quotas(options.quotas);
    const synced = (): Promise<void> =>
      database.synced().catch((error: unknown) => {
        writes.failed(error);
        throw error;
      });
    const callers = new Set<string>();
    const { ownerOf = () => undefined } = options;
    const rpc = await createRpcServer({
      services: { jobs, planner, kernels, sources, artifacts, history, leaderboard, decisions, host, quotas, ownerOf },
      standard: standardServices(options),
      access: guardCalls({ identify: identifierOf(options), quotas, logger }),
      cleanText,
      streams: { ...STREAM_LIMITS, perClient: options.maxStreamsPerClient, ...options.streams },
      onCall: (peer) => callers.add(peer),
      synced,
      logger,
    });
    const security = options.security && {
      tls: readServerTls(options.security.folder),
      clientCertificates: options.security.clients === 'certificate',
    };
    const listener = await listen(rpc.server, options.address ?? embeddedAddress(dataDirectory), {
      security,
      callers,
      beginWithinMs: options.beginWithinMs ?? BEGIN_WITHIN_MS,
      onRefused: onceAMinute(() =>
        logger.warn('a connection was refused: as many are open as this process has descriptors for'),
      ),
    });
    const about = { pid: process.pid, address: listener.address, buildId, version, embedded };
    undo.defer(toleratingFullDisk(() => announceRunner(dataDirectory, about), writes) ?? (() => undefined));

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
    const ended = Promise.withResolvers<void>();
    let stopping = false;
    // Reads and watches go on while nothing can be stored.
    rpc.setServing(writes.failure === undefined);
    writes.onChange((writable) => rpc.setServing(writable && !stopping));
    const stop = (): void => {
      if (stopping) return planner.keptBody ? undefined : jobs.stopAll();
      stopping = true;
      rpc.setServing(false);
      logger.info({ activeJobs: jobs.active }, 'ending');
      end().then(ended.resolve, ended.reject);
    };
    const end = async (): Promise<void> => {
      if (!planner.keptBody) await jobs.drain(options.graceSeconds * 1_000);
      const closed = planner.close();
      // What another runner goes on with is not ended; the planner hears nothing of that any more.
      if (planner.keptBody) jobs.leave();
      if (!(await endsWithin(closed, WORKERS_GRACE_MS)))
        logger.warn('a worker or compiler does not end: it is left behind');
      await listener.close(CALLS_GRACE_MS);
      await tracing?.close();
      kept.dispose();
    };
    if (embedded) {
      undo.defer(
        watchIdle({
          isIdle: () => listener.connections === 0 && jobs.active === 0,
          seconds: options.idleExitSeconds,
          onIdle: stop,
        }),
      );
    }
    const kept = undo.move();
    return { address: listener.address, ended: ended.promise, stop };
  } catch (error) {
    undo.dispose();
    throw storageError(error, 'start');
  }
}

/** What a runner can do without where its disk is full: it then serves what is stored. */
function toleratingFullDisk<Result>(work: () => Result, writes: WriteState): Result | undefined {
  try {
    return work();
  } catch (thrown) {
    const error = storageError(thrown, 'announce itself');
    if (!isStorageFailure(error)) throw thrown;
    writes.failed(error);
    return undefined;
  }
}

function identifierOf({ security, dataDirectory }: RunnerOptions): Identify {
  if (!security) return identifyLocal;
  return security.clients === 'token'
    ? identifyByToken(new TokenFile(dataDirectory))
    : identifyByCertificate(new RevokedCertificates(dataDirectory));
}

/** An embedded runner's clients have the .proto files, and wait for its start. */
function standardServices({ embedded, reflection }: RunnerOptions): RpcServerOptions['standard'] {
  if (embedded) return 'none';
  return reflection ? 'health and reflection' : 'health';
}

/** Every build takes headers from there: without the folder each job would end as a fault of the runner. */
function requireKernels(folder: string): void {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`${folder} is no folder: give --kernels the folder of the runner's kernels`);
}

/**
 * Where clients show credentials the runner keeps keys and other people's results: not without a box, but by request.
 */
const isolationFor = ({ isolation, security }: RunnerOptions): RunnerOptions['isolation'] =>
  isolation === 'auto' && security ? 'required' : isolation;

async function requireBox(planner: JobPlanner, { isolation }: RunnerOptions): Promise<void> {
  const { kind, detail } = await planner.isolation();
  if (kind !== 'none') return;
  const remedy =
    isolation === 'required'
      ? 'leave out --isolation required'
      : 'give --isolation none, with which every client can read tokens, keys and results';
  throw new UsageError(`${detail}: make bubblewrap work, or ${remedy}`);
}

async function warnWithoutBox(planner: JobPlanner, logger: Logger): Promise<void> {
  const { kind, detail } = await planner.isolation();
  if (kind === 'none') logger.warn({ detail }, 'there is no box around compilers and kernels');
}

/** Calls that still run when all jobs have ended get so long: watchers read the last events. */
const CALLS_GRACE_MS = 2_000;
/**
 * Workers are killed; one that hangs in its driver must not keep the runner from ending. Longer than their own limits.
 */
const WORKERS_GRACE_MS = 7_000;

/** Does it now, unless it did within the last minute: a flood must not flood the log. */
function onceAMinute(work: () => void): () => void {
  let lastMs = -Infinity;
  return () => {
    if (performance.now() - lastMs < 60_000) return;
    lastMs = performance.now();
    work();
  };
}
