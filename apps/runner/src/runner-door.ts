import {
  guardCalls,
  identifyByCertificate,
  identifyByToken,
  identifyLocal,
  type Identify,
} from './access/authentication.ts';
import { readServerTls } from './access/certificates.ts';
import { RevokedCertificates, TokenFile } from './access/credential-files.ts';
import { announceRunner, embeddedAddress } from './embedded.ts';
import { BEGIN_WITHIN_MS, listen, type Listener } from './rpc/listen.ts';
import { STREAM_LIMITS } from './rpc/open-streams.ts';
import { createRpcServer, type RpcServer, type RpcServerOptions } from './rpc/server.ts';
import type { RunnerOptions } from './serve-options.ts';
import type { RunnerStores } from './runner-stores.ts';
import { isStorageFailure, storageError } from './store/storage-error.ts';
import type { WriteState } from './store/write-state.ts';

type DoorOptions = Pick<RpcServerOptions, 'services' | 'cleanText'> & Pick<RunnerStores, 'writes' | 'synced'>;

/** The address where clients reach the runner. */
export interface RunnerDoor {
  listener: Listener;
  /** Sets whether clients see the runner as accepting work. */
  setServing: RpcServer['setServing'];
}

/** Listens for clients and announces the runner in its data folder; `undo` reverts both. Errors: AddressInUse. */
export async function openDoor(
  options: RunnerOptions,
  { services, cleanText, writes, synced }: DoorOptions,
  undo: DisposableStack,
): Promise<RunnerDoor> {
  const { dataDirectory, logger, embedded, version, buildId } = options;
  const callers = new Set<string>();
  const rpc = await createRpcServer({
    services,
    standard: standardServices(options),
    access: guardCalls({ identify: identifierOf(options), quotas: services.quotas, logger }),
    ...(cleanText && { cleanText }),
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
  const about = {
    pid: process.pid,
    address: listener.address,
    buildId,
    program: process.argv[1] ?? '',
    version,
    embedded,
  };
  undo.defer(toleratingFullDisk(() => announceRunner(dataDirectory, about), writes) ?? (() => undefined));
  return { listener, setServing: (serving) => rpc.setServing(serving) };
}

function identifierOf({ security, dataDirectory }: RunnerOptions): Identify {
  if (!security) return identifyLocal;
  return security.clients === 'token'
    ? identifyByToken(new TokenFile(dataDirectory))
    : identifyByCertificate(new RevokedCertificates(dataDirectory));
}

/** An embedded runner needs no standard services, because its clients have the .proto files and wait for its start. */
function standardServices({ embedded, reflection }: RunnerOptions): RpcServerOptions['standard'] {
  if (embedded) return 'none';
  return reflection ? 'health and reflection' : 'health';
}

/** Runs work that a full disk may make impossible. The runner then serves what is already stored. */
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

/** Runs `work` at most once a minute, so that a flood of calls does not flood the log. */
function onceAMinute(work: () => void): () => void {
  let lastMs = -Infinity;
  return () => {
    if (performance.now() - lastMs < 60_000) return;
    lastMs = performance.now();
    work();
  };
}
