import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  status,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type UntypedServiceImplementation,
  ServerInterceptingCall,
  ServerListenerBuilder,
  type Metadata,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import { FlashcoreError, asFlashcoreError, parseSha256, sha256Of, statusFromError } from '@flashcore/shared/contract';
import {
  AttachResponseSchema,
  MAX_FILE_BYTES,
  ReadBuildResponseSchema,
  ReadSourceResponseSchema,
  StoreArtifactResponseSchema,
  type AttachRequest,
  type AttachResponse,
  type ReadBuildRequest,
  type ReadBuildResponse,
  type ReadSourceRequest,
  type ReadSourceResponse,
  type StoreArtifactRequest,
  type StoreArtifactResponse,
} from '@flashcore/shared/fleet';
import type { Logger } from '../log.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { FleetTable } from '../store/fleet-table.ts';
import { storageError } from '../store/storage-error.ts';
import type { SourceStore } from '../store/sources.ts';
import type { PilotLink, PilotSession } from './pilot-link.ts';
import type { PilotPool } from './pilot-pool.ts';
import type { PilotWork } from './pilot-work.ts';

export interface FleetServiceOptions {
  pool: Pick<PilotPool, 'register' | 'workOf'>;
  sources: SourceStore;
  artifacts: ArtifactStore;
  logger: Logger;
  /** Called with the address and port of the caller at each call. */
  onCall: (peer: string) => void;
  /** Resolves when everything stored so far is on the disk. */
  synced: () => Promise<void>;
}

type AttachCall = ServerDuplexStream<AttachRequest, AttachResponse>;

/** Pilots send a heartbeat every few seconds. A pilot that is silent for this long is lost. */
const SILENT_MS = 15_000;
const REGISTER_WITHIN_MS = 10_000;

/** The handlers of FleetService. */
export function fleetHandlers(options: FleetServiceOptions): UntypedServiceImplementation {
  return {
    attach: (call: AttachCall) => attach(call, options),
    readSource: unary<ReadSourceRequest, ReadSourceResponse>(options, (request, workOf) => {
      const sha256 = parseSha256(request.sha256);
      workOf().requireReadable('source', sha256);
      return create(ReadSourceResponseSchema, { data: options.sources.read(sha256) });
    }),
    readBuild: unary<ReadBuildRequest, ReadBuildResponse>(options, (request, workOf) => {
      const sha256 = parseSha256(request.sha256);
      workOf().requireReadable('build', sha256);
      return create(ReadBuildResponseSchema, { data: new Uint8Array(options.artifacts.get(sha256)) });
    }),
    storeArtifact: unary<StoreArtifactRequest, StoreArtifactResponse>(options, (request, workOf) =>
      create(StoreArtifactResponseSchema, { kept: storeArtifact(request, options.artifacts, workOf) }),
    ),
  };
}

/** The job of the pilot that makes a call. Errors: PERMISSION_DENIED. */
type WorkOf = () => PilotWork;

/** Errors: INVALID_REQUEST, PERMISSION_DENIED, DIGEST_MISMATCH, DISK_FULL. */
function storeArtifact(request: StoreArtifactRequest, artifacts: ArtifactStore, workOf: WorkOf): boolean {
  const { data } = request;
  const sha256 = parseSha256(request.sha256);
  const work = workOf();
  if (data.byteLength === 0) return artifacts.has(sha256);
  const found = sha256Of(data);
  if (data.byteLength > MAX_FILE_BYTES || found !== sha256)
    throw new FlashcoreError('DIGEST_MISMATCH', { sha256 }, `data: must have the digest ${sha256}, got ${found}`);
  if (!artifacts.has(sha256)) work.takeStored(data.byteLength);
  artifacts.put(data);
  return true;
}

function unary<Request, Response>(
  { logger, onCall, pool }: FleetServiceOptions,
  answer: (request: Request, workOf: WorkOf) => Response,
): (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>) => void {
  return (call, done) => {
    onCall(call.getPeer());
    try {
      done(
        null,
        answer(call.request, () => pool.workOf(sessionIn(call.metadata))),
      );
    } catch (thrown) {
      const error = asFlashcoreError(storageError(thrown, 'keep this'));
      if (error.reason === 'INTERNAL') logger.error({ err: error }, 'a pilot could not be answered');
      done(statusFromError(error));
    }
  };
}

/** Handles one pilot's stream, from its registration to its end. */
function attach(call: AttachCall, { pool, logger, onCall, synced }: FleetServiceOptions): void {
  onCall(call.getPeer());
  let said: Promise<void> = Promise.resolve();
  /**
   * Sends a message once the session and the lease are on the disk, so that neither is given out again after a power
   * failure. Writes nothing after the end: that would destroy the call before its status is sent, and the pilot would
   * wait forever.
   */
  const say = (message: MessageInitShape<typeof AttachResponseSchema>['message']): void => {
    said = said
      .then(synced)
      .then(() => void (call.destroyed || call.writableEnded || call.write(create(AttachResponseSchema, { message }))))
      .catch((thrown: unknown) => {
        end('the gateway could not store its lease');
        refuse(asFlashcoreError(thrown));
      });
  };
  const link: PilotLink = {
    registered: ({ lease, afterSequence }) =>
      say({ case: 'registered', value: { lease: BigInt(lease), afterSequence: BigInt(afterSequence) } }),
    assign: (assignment) => say({ case: 'assignment', value: assignment }),
    stop: (lease) => say({ case: 'stop', value: { lease: BigInt(lease) } }),
    dismiss: (reason) => {
      say({ case: 'dismissed', value: { reason } });
      void said.then(() => call.end());
    },
    cut: (details) => void call.emit('error', { code: status.UNAVAILABLE, details }),
  };
  let session: PilotSession | undefined;
  let over = false;
  const end = (reason: string): void => {
    clearTimeout(silent);
    over = true;
    session?.lost(reason);
    session = undefined;
  };
  let silent = setTimeout(() => refuse(new FlashcoreError('UNAUTHENTICATED', {}, NOT_REGISTERED)), REGISTER_WITHIN_MS);
  const refuse = (error: FlashcoreError): void => {
    clearTimeout(silent);
    over = true;
    if (error.reason === 'INTERNAL') logger.error({ err: error }, 'a pilot could not be heard');
    else logger.warn({ reason: error.reason, message: error.message }, 'a pilot was not let in');
    call.emit('error', statusFromError(error));
  };
  const heard = (): void => {
    clearTimeout(silent);
    silent = setTimeout(() => {
      end(`its pilot was silent for ${SILENT_MS / 1000} s`);
      // A silent pilot that comes back can register again, and keeps its job unless another pilot has the job by then.
      call.emit('error', { code: status.UNAVAILABLE, details: 'the pilot was silent' });
    }, SILENT_MS);
  };
  call.on('data', ({ message }: AttachRequest) => {
    // Ignores messages that were in transit when the pilot was disconnected; the pilot sends them again when it is
    // back.
    if (over) return;
    try {
      if (session) tell(session, message);
      else if (message.case === 'register') session = pool.register(message.value, link);
      else throw new FlashcoreError('UNAUTHENTICATED', {}, NOT_REGISTERED);
      heard();
    } catch (thrown) {
      const error = asFlashcoreError(storageError(thrown, 'let a pilot in'));
      end(`its pilot was cut off: ${error.message}`);
      refuse(error);
    }
  });
  call.on('end', () => {
    end('its pilot has ended');
    call.end();
  });
  call.on('cancelled', () => end('the connection to its pilot broke'));
  call.on('error', () => end('the connection to its pilot broke'));
}

const NOT_REGISTERED = 'This stream has no registered pilot: register first';

function tell(session: PilotSession, message: AttachRequest['message']): void {
  switch (message.case) {
    case 'event': {
      const { lease, event } = message.value;
      if (!event) throw new FlashcoreError('INVALID_REQUEST', {}, 'event: must be set');
      return session.event(Number(lease), event);
    }
    case 'giveBack':
      return session.giveBack(Number(message.value.lease), message.value.reason);
    case 'heartbeat':
      return session.alive(Number(message.value.secondsLeft));
    case 'leaving':
      return session.leaving(message.value.reason);
    case 'register':
    case undefined:
      throw new FlashcoreError(
        'INVALID_REQUEST',
        {},
        `message: must be event, giveBack, heartbeat or leaving, got ${message.case ?? 'none'}`,
      );
  }
}

/** The only method that needs no session, because it registers the pilot. */
const ATTACH = /\/Attach$/;

/**
 * Refuses calls other than Attach that have no pilot's session, before their message is read, because it may be large.
 */
export const onlySessions =
  (table: FleetTable): ServerInterceptor =>
  (method, call) => {
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        if (ATTACH.test(method.path) || hasSession(metadata, table)) return next(metadata);
        const text = 'Register first (Attach), and send the session that it gave';
        call.sendStatus(statusFromError(new FlashcoreError('UNAUTHENTICATED', {}, text)));
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };

function hasSession(metadata: Metadata, table: FleetTable): boolean {
  const session = sessionIn(metadata);
  return session !== '' && table.pilotOf(session) !== undefined;
}

/** The session in a call's metadata; "" if there is none. */
const sessionIn = (metadata: Metadata): string =>
  /^Bearer ([\w-]{1,64})$/.exec(String(metadata.get('authorization')[0] ?? ''))?.[1] ?? '';
