import { join } from 'node:path';
import { Server } from '@grpc/grpc-js';
import { SERVER_OPTIONS } from '@flashcore/shared/client';
import { fleetServiceDefinition, MAX_FILE_BYTES } from '@flashcore/shared/fleet';
import type { ServerTls } from '../access/certificates.ts';
import { endsWithin } from '../async.ts';
import { KernelSettings } from '../experiment/kernel-settings.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import type { JobPlanner, JobQueues } from '../jobs/job-context.ts';
import { isExposed, parseListenAddress } from '../rpc/address.ts';
import { BEGIN_WITHIN_MS, listen, type Listener } from '../rpc/listen.ts';
import { UsageError } from '../usage-error.ts';
import type { FleetFile } from './fleet-file.ts';
import { createFleetPlanner } from './fleet-planner.ts';
import { fleetHandlers } from './fleet-service.ts';
import { deviceIdOf } from './partition-devices.ts';
import { PilotPool } from './pilot-pool.ts';
import { Scaler } from './scaler.ts';
import type { Scheduler } from './slurm.ts';

export interface GatewayOptions {
  file: FleetFile;
  /** Made when the data folder is locked; `folder`: for its own files. */
  scheduler: (folder: string) => Scheduler;
  /** Undefined: plain text, on this machine alone. */
  tls: ServerTls | undefined;
  /** Between two looks at the queue and the scheduler. */
  roundMs?: number;
}

const ROUND_MS = 2_000;
const CLOSE_WITHIN_MS = 5_000;
/** Room for a message around the largest file. */
const MESSAGE_BYTES = MAX_FILE_BYTES + 1024 * 1024;

/** A planner whose jobs run on a cluster: pilots register with it at an address of their own. Errors: UsageError. */
export function createGateway(planner: PlannerOptions, options: GatewayOptions): JobPlanner {
  const { file, tls, roundMs = ROUND_MS } = options;
  const address = parseListenAddress(file.listen);
  if (isExposed(address) && !tls)
    throw new UsageError(
      `Give --tls <folder> (flashcore-runner tls init), or listen on 127.0.0.1: ${file.listen} is open to other machines`,
    );
  const { logger, sources, artifacts, buildId } = planner;
  const table = planner.fleet!;
  const pool = new PilotPool({ partitions: file.partitions, table, buildId, logger });
  const scheduler = options.scheduler(join(planner.dataDirectory, 'fleet'));
  const ended = new AbortController();
  const running: { listener?: Listener; rounds?: Promise<void>; scaler?: Scaler } = {};

  /** Jobs that wait for a pilot to have room for them. */
  let queued: (partition: string) => number = () => 0;

  const begin = async (queues: JobQueues): Promise<void> => {
    pool.onChange = () => queues.startWaiting();
    queued = (partition) => queues.waitingFor(deviceIdOf(partition));
    running.scaler = new Scaler({ file, pool, table, scheduler, queued, logger });
    const server = new Server({
      ...SERVER_OPTIONS,
      'grpc.max_receive_message_length': MESSAGE_BYTES,
      'grpc.max_send_message_length': MESSAGE_BYTES,
    });
    server.addService(fleetServiceDefinition, fleetHandlers({ pool, table, sources, artifacts, logger }));
    running.listener = await listen(server, address, {
      security: tls && { tls, clientCertificates: false },
      callers: new Set(),
      beginWithinMs: BEGIN_WITHIN_MS,
      onRefused: () => logger.warn('a pilot was refused: as many connections are open as there are descriptors for'),
    });
    logger.info({ address: running.listener.address }, 'pilots register here');
    running.rounds = rounds(running.scaler, roundMs, ended.signal);
  };

  const close = async (): Promise<void> => {
    ended.abort();
    pool.onChange = () => undefined;
    pool.close();
    await endsWithin(Promise.allSettled([running.rounds, running.scaler?.close()]), CLOSE_WITHIN_MS);
    await running.listener?.close(0);
  };

  return createFleetPlanner({
    ...planner,
    pool,
    settings: new KernelSettings(planner.kernelsDirectory),
    describe: () => pool.describe(table.pilots(), queued),
    begin,
    close,
  });
}

async function rounds(scaler: Scaler, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await scaler.round();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, everyMs);
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}
