import {
  Server,
  type MethodDefinition,
  type ServerInterceptor,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { JOB_RPCS, type RpcName, SERVER_OPTIONS, serviceDefinition } from '@flashcore/shared/client';
import { type CleanText, KernelRunnerService } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import { callWrappers, type Services } from './call.ts';
import * as decisions from './decide.ts';
import * as leaderboard from './get-leaderboard.ts';
import * as hostQueries from './host-queries.ts';
import * as jobQueries from './job-queries.ts';
import { OpenStreams, type StreamLimits, rememberTransports } from './open-streams.ts';
import * as jobStarts from './start-job.ts';
import * as uploads from './upload-sources.ts';

export interface RpcServer {
  server: Server;
  /** Tells the standard health service, if served, whether new work is accepted. */
  setServing(serving: boolean): void;
}

export interface RpcServerOptions {
  services: Services;
  /** Whether to serve the standard health service, and reflection. */
  standard: 'none' | 'health' | 'health and reflection';
  /** Runs before every call and identifies the caller. */
  access: ServerInterceptor;
  /** Cleans all texts in errors. */
  cleanText?: CleanText;
  streams: StreamLimits;
  /** Called with the address and port of each caller. */
  onCall: (peer: string) => void;
  /** Resolves when all stored data is on the disk. */
  synced: () => Promise<void>;
  logger: Logger;
}

/** Makes the gRPC server: our service and the standard ones. It does not listen yet. */
export async function createRpcServer(options: RpcServerOptions): Promise<RpcServer> {
  const { services, standard, access, cleanText, streams, onCall, synced, logger } = options;
  const server = new Server({
    ...SERVER_OPTIONS,
    interceptors: [access, rememberTransports(onCall), ...(SERVER_OPTIONS.interceptors ?? [])],
  });
  server.addService(
    definitionOfStoredEvents(),
    handlers(services, callWrappers({ logger, streams: new OpenStreams(streams), cleanText, synced })),
  );
  if (standard === 'none') return { server, setServing: () => undefined };
  const { addStandardServices } = await import('./standard-services.ts');
  return { server, setServing: addStandardServices(server, { reflection: standard === 'health and reflection' }) };
}

/** The handler of every RPC, by its name. */
const HANDLERS = {
  ...jobStarts,
  ...jobQueries,
  ...hostQueries,
  ...leaderboard,
  ...decisions,
  ...uploads,
} satisfies Record<RpcName, (services: Services) => unknown>;

/** Wraps each handler according to the kind of its RPC. */
function handlers(services: Services, wrappers: ReturnType<typeof callWrappers>): UntypedServiceImplementation {
  const byKind: Record<string, (handler: never) => UntypedServiceImplementation[string]> = {
    unary: wrappers.unary,
    server_streaming: wrappers.stream,
    client_streaming: wrappers.upload,
  };
  return Object.fromEntries(
    KernelRunnerService.methods.map(({ localName, methodKind }) => [
      localName,
      byKind[methodKind]!(HANDLERS[localName as RpcName](services) as never),
    ]),
  );
}

/** The service definition that sends stored events without decoding and encoding them again. */
function definitionOfStoredEvents(): ServiceDefinition {
  const methods = serviceDefinition as unknown as Record<string, MethodDefinition<unknown, unknown>>;
  const ofEvents: readonly string[] = [...JOB_RPCS, 'watchJob'];
  return Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [
      name,
      ofEvents.includes(name)
        ? { ...method, responseSerialize: (event: unknown) => frameEvent(event as Uint8Array) }
        : method,
    ]),
  );
}

// Field 1, length-delimited: `JobEvent event = 1` of BuildResponse, WatchJobResponse and other messages with an event.
const EVENT_FIELD_TAG = 0x0a;

/** A response that carries a stored event, in protobuf's binary form: tag, length as a varint, the event's bytes. */
function frameEvent(event: Uint8Array): Buffer {
  const header = [EVENT_FIELD_TAG];
  let length = event.byteLength;
  for (; length > 0x7f; length >>>= 7) header.push((length & 0x7f) | 0x80);
  header.push(length);
  return Buffer.concat([Uint8Array.from(header), event]);
}
