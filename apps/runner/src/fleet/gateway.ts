import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Server } from '@grpc/grpc-js';
import { SERVER_OPTIONS } from '@flashcore/shared/client';
import { fleetServiceDefinition, MAX_FILE_BYTES } from '@flashcore/shared/fleet';
import type { ServerTls } from '../access/certificates.ts';
import { endsWithin } from '../async.ts';
import { KernelSettings } from '../experiment/kernel-settings.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import type { ClientLoad, JobPlanner, JobQueues } from '../jobs/job-context.ts';
import { formatAddress, isExposed, parseListenAddress } from '../rpc/address.ts';
import { AddressInUse, BEGIN_WITHIN_MS, listen, type Listener } from '../rpc/listen.ts';
import { UsageError } from '@flashcore/shared/contract';
import type { FleetFile } from './fleet-file.ts';
import { createFleetPlanner } from './fleet-planner.ts';
import { fleetHandlers, onlySessions } from './fleet-service.ts';
import { GatewayBuilds } from './gateway-builds.ts';
import { PilotPool } from './pilot-pool.ts';
import { Scaler } from './scaler.ts';
import type { Scheduler } from './scheduler.ts';

export interface GatewayOptions {
  file: FleetFile;
  /** Creates the scheduler once the data folder is locked; `folder` is for its files. */
  scheduler: (folder: string) => Scheduler;
  /** Why the scheduler did not answer when the gateway started; default: it answered. */
  schedulerProblem?: string | undefined;
  /** undefined: plain text, for this machine only. */
  tls: ServerTls | undefined;
  /** Interval between rounds over the queue and the scheduler. */
  roundMs?: number;
  /** Time limit for a pilot's connection to begin; default 10 s. */
  beginWithinMs?: number;
  /** Starts the server for pilots; default: over the network, at the file's address. */
  openDoor?: (pool: PilotPool) => Promise<Door>;
  /** Default: the machine's clock. A simulated cluster has its own clock. */
  clock?: Clock;
}

/** The server that pilots connect to. */
export interface Door {
  close(graceMs: number): Promise<void>;
}

/** The gateway's clock. */
export interface Clock {
  nowMs(): number;
  /** Resolves after the given time, or at once when the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

const MACHINE_CLOCK: Clock = {
  nowMs: Date.now,
  sleep: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
};

const ROUND_MS = 2_000;
const CLOSE_WITHIN_MS = 3_000;
/** Room for the largest file and the message around it. */
const MESSAGE_BYTES = MAX_FILE_BYTES + 1024 * 1024;

/** Errors: UsageError. */
function listenAddress({ scheduler, listen: text }: FleetFile): ReturnType<typeof parseListenAddress> {
  try {
    return parseListenAddress(text);
  } catch (error) {
    throw error instanceof UsageError ? new UsageError(`--${scheduler}: listen: ${error.message}`) : error;
  }
}

/** A planner whose jobs run on a cluster. Pilots register at an address of their own. Errors: UsageError. */
export function createGateway(planner: PlannerOptions, options: GatewayOptions): JobPlanner {
  const { file, tls, roundMs = ROUND_MS, clock = MACHINE_CLOCK } = options;
  const address = listenAddress(file);
  if (isExposed(address) && !tls)
    throw new UsageError(
      `Give --tls <folder> (flashcore-runner tls init), or listen on 127.0.0.1: ${file.listen} is open to other machines`,
    );
  if (tls && !file.tls_ca)
    throw new UsageError(`--${file.scheduler}: give tls_ca, the path of ca.crt: pilots must know the gateway`);
  if (tls) requireNamed(file, tls);
  const { logger, sources, artifacts, buildId } = planner;
  const table = planner.fleet!;
  const pool = new PilotPool({ partitions: file.partitions, table, buildId, logger, nowMs: () => clock.nowMs() });
  pool.account.schedulerProblem = options.schedulerProblem;
  const scheduler = options.scheduler(join(planner.dataDirectory, 'fleet'));
  const settings = new KernelSettings(planner.kernelsDirectory);
  const builds =
    file.builds.at === 'pilots' ? undefined : new GatewayBuilds({ planner, settings, atOnce: file.builds.at_once });
  const deviceIdOf = (partition: string): string => pool.devices.of(partition)!.deviceId;
  const building = (partition: string): number => builds?.running(deviceIdOf(partition)) ?? 0;
  const ended = new AbortController();
  /** The peers that have made a call. A connection without a call is closed after a time limit. */
  const callers = new Set<string>();
  const running: { door?: Door; rounds?: Promise<void>; scaler?: Scaler } = {};

  /** The number of jobs that wait in the queue until a pilot is free for them. */
  let queued: (partition: string) => number = () => 0;
  let clients: (partition: string) => ClientLoad[] = () => [];

  const begin = async (queues: JobQueues): Promise<void> => {
    pool.storeFailure = () => queues.storeFailure;
    pool.expect(table.pilots());
    await builds?.prepare();
    pool.onChange = () => queues.startWaiting();
    queued = (partition) => queues.waitingFor(deviceIdOf(partition));
    clients = (partition) => queues.clientsOf(deviceIdOf(partition));
    const nowMs = (): number => clock.nowMs();
    running.scaler = new Scaler({ file, pool, table, scheduler, queued, building, logger, nowMs });
    running.door = await (options.openDoor ?? openDoor)(pool);
    running.rounds = rounds(running.scaler, { everyMs: roundMs, clock, signal: ended.signal });
  };

  const openDoor = async (): Promise<Door> => {
    const server = new Server({
      ...SERVER_OPTIONS,
      interceptors: [onlySessions(table), ...(SERVER_OPTIONS.interceptors ?? [])],
      'grpc.max_receive_message_length': MESSAGE_BYTES,
      'grpc.max_send_message_length': MESSAGE_BYTES,
    });
    server.addService(
      fleetServiceDefinition,
      fleetHandlers({
        pool,
        sources,
        artifacts,
        logger,
        onCall: (peer) => callers.add(peer),
        synced: () => table.synced(),
      }),
    );
    const listener = await listenForPilots(server, address, {
      security: tls && { tls, clientCertificates: false },
      callers,
      beginWithinMs: options.beginWithinMs ?? BEGIN_WITHIN_MS,
      onRefused: () => logger.warn('a pilot was refused: as many connections are open as there are descriptors for'),
    });
    logger.info({ address: listener.address }, 'pilots register here');
    return listener;
  };

  const close = async (): Promise<void> => {
    ended.abort();
    pool.onChange = () => undefined;
    running.scaler?.stop();
    pool.leave();
    // Waits for a running round, which still records the pilots that it submits.
    await endsWithin(Promise.resolve(running.rounds), CLOSE_WITHIN_MS);
    await running.door?.close(0);
    logger.info('pilots and jobs wait for a gateway on the same data (docs/fleet.md says how to end them)');
  };

  return createFleetPlanner({
    ...planner,
    pool,
    settings,
    builds,
    describe: () => pool.describe(table.pilots(), { queued, clients, builds: builds?.describe() }),
    begin,
    close,
  });
}

/**
 * Checks that the certificate has the name under which nodes reach the gateway, because nodes accept no other
 * certificate. Errors: UsageError.
 */
function requireNamed({ scheduler, reach }: FleetFile, { certificate }: ServerTls): void {
  const address = parseListenAddress(reach);
  if (address.kind !== 'tcp') return;
  const { host } = address;
  const read = new X509Certificate(certificate);
  if (isIP(host) ? read.checkIP(host) : read.checkHost(host)) return;
  throw new UsageError(
    `--${scheduler}: reach must be a name in the gateway's certificate (${read.subjectAltName ?? 'it has none'}), got ${host}: change reach, or make certificates with "flashcore-runner tls init --host ${host}"`,
  );
}

/** Errors: UsageError if another program uses the address. */
async function listenForPilots(...[server, address, options]: Parameters<typeof listen>): Promise<Listener> {
  try {
    return await listen(server, address, options);
  } catch (error) {
    if (error instanceof AddressInUse)
      throw new UsageError(
        `Give another "listen" in the fleet file, or stop the program that uses it: ${formatAddress(address)} is in use`,
      );
    throw error instanceof UsageError ? new UsageError(`"listen" in the fleet file: ${error.message}`) : error;
  }
}

interface RoundOptions {
  everyMs: number;
  clock: Clock;
  signal: AbortSignal;
}

async function rounds(scaler: Scaler, { everyMs, clock, signal }: RoundOptions): Promise<void> {
  while (!signal.aborted) {
    await scaler.round();
    await clock.sleep(everyMs, signal);
  }
}
