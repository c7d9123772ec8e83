/** The service in grpc-js' form, built from protobuf-es' descriptor, and the channel options of both sides. */
import { randomUUID } from 'node:crypto';
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  clone,
} from '@bufbuild/protobuf';
import {
  type ChannelOptions,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type MethodDefinition,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  type ServerOptions,
  type ServiceDefinition,
} from '@grpc/grpc-js';
import { FlashcoreError } from '../contract/errors.ts';
import { plainMessage } from '../contract/plain-message.ts';
import { statusFromError } from '../contract/error-status.ts';
import {
  KernelRunnerService,
  type BuildRequestSchema,
  JobOptionsSchema,
} from '../generated/flashcore/runner/v1/service_pb.js';

/** The required value of Host.api_version. */
export const API_VERSION = 'v1';

type Methods = typeof KernelRunnerService.method;
/** Names of the RPCs in camel case, such as `getHost`. */
export type RpcName = keyof Methods;
export type RpcRequest<Name extends RpcName> = MessageShape<Methods[Name]['input']>;
export type RpcRequestInit<Name extends RpcName> = MessageInitShape<Methods[Name]['input']>;
export type RpcResponse<Name extends RpcName> = MessageShape<Methods[Name]['output']>;
type NamesOfKind<Kind extends string> = {
  [Name in RpcName]: Methods[Name]['methodKind'] extends Kind ? Name : never;
}[RpcName];
export type UnaryRpcName = NamesOfKind<'unary'>;
export const UNARY_RPCS = KernelRunnerService.methods
  .filter(({ methodKind }) => methodKind === 'unary')
  .map(({ localName }) => localName as UnaryRpcName);
export type ServerStreamingRpcName = NamesOfKind<'server_streaming'>;
/** The RPCs that start a job and stream its events. */
export const JOB_RPCS = [
  'build',
  'verify',
  'benchmark',
  'profile',
  'runExperiment',
  'tune',
] as const satisfies readonly ServerStreamingRpcName[];
export type JobRpcName = (typeof JOB_RPCS)[number];

type Handler<
  Name extends RpcName,
  Request = RpcRequest<Name>,
  Response = RpcResponse<Name>,
> = Methods[Name]['methodKind'] extends 'unary'
  ? handleUnaryCall<Request, Response>
  : Methods[Name]['methodKind'] extends 'server_streaming'
    ? handleServerStreamingCall<Request, Response>
    : Methods[Name]['methodKind'] extends 'client_streaming'
      ? handleClientStreamingCall<Request, Response>
      : handleBidiStreamingCall<Request, Response>;

/** The handlers that Server.addService takes along with `serviceDefinition`. */
export type RpcHandlers = { [Name in RpcName]: Handler<Name> };

/** One of flashcore's services in grpc-js' form. */
export const definitionOf = (service: DescService): ServiceDefinition =>
  Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method)]));

export const serviceDefinition = definitionOf(KernelRunnerService) as unknown as ServiceDefinition<RpcHandlers>;

/** Options of every client channel. */
export const CLIENT_CHANNEL_OPTIONS: ChannelOptions = {
  // Detects a frozen runner or a dead network within 15 s; otherwise a call would wait forever.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.max_receive_message_length': 64 * 1024 * 1024,
  'grpc.max_send_message_length': 64 * 1024 * 1024,
  // grpc-js retries only until the first headers and buffers requests meanwhile; WatchJob resumes streams instead.
  'grpc.enable_retries': 0,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  // Each channel has its own connections, so close() ends them and nothing keeps the process alive.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
  // Runners are on the same machine or behind the user's own tunnel, never behind a web proxy.
  'grpc.enable_http_proxy': 0,
};

/**
 * Options of the runner's Server: `new Server(SERVER_OPTIONS)`. They make the server refuse a request that cannot be
 * decoded, before its handler sees it.
 */
export const SERVER_OPTIONS: ServerOptions = {
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.max_receive_message_length': 16 * 1024 * 1024,
  'grpc.max_send_message_length': 64 * 1024 * 1024,
  // Limit for each connection, which includes unary calls. Further calls wait at the client.
  'grpc.max_concurrent_streams': 256,
  'grpc.enable_channelz': 0,
  interceptors: [refuseMalformedRequests],
};

/**
 * Takes the place of a request whose bytes are not a message of its type. If a deserializer throws, grpc-js answers
 * INTERNAL, as if the runner were at fault.
 */
class MalformedRequest {
  readonly error: FlashcoreError;

  constructor(schema: DescMessage, cause: unknown) {
    this.error = new FlashcoreError(
      'INVALID_REQUEST',
      { message: schema.name },
      `The bytes are not a ${schema.typeName}: ${(cause as Error).message}`,
      { cause },
    );
  }
}

/**
 * Answers a malformed request. Messages that a stream's handler sends afterwards are dropped. Otherwise grpc-js would
 * write them after the end, which destroys the stream before its status is sent, and the client would wait until its
 * deadline.
 */
function refuseMalformedRequests(...[, call]: Parameters<ServerInterceptor>): ServerInterceptingCall {
  let isRefused = false;
  const listener = new ServerListenerBuilder()
    .withOnReceiveMessage((message, next) => {
      if (message instanceof MalformedRequest) {
        isRefused = true;
        call.sendStatus(statusFromError(message.error));
      } else next(message);
    })
    .build();
  return new ServerInterceptingCall(call, {
    start: (next) => next(listener),
    sendMessage: (message, next) => {
      if (!isRefused) next(message);
    },
    sendStatus: (status, next) => {
      if (!isRefused) next(status);
    },
  });
}

function methodDefinition({ parent, name, methodKind, input, output }: DescMethod): MethodDefinition<unknown, unknown> {
  return {
    path: `/${parent.typeName}/${name}`,
    originalName: name,
    requestStream: methodKind === 'client_streaming' || methodKind === 'bidi_streaming',
    responseStream: methodKind === 'server_streaming' || methodKind === 'bidi_streaming',
    requestSerialize: (request) => encode(input, request),
    requestDeserialize: (bytes) => {
      try {
        return fromBinary(input, bytes);
      } catch (cause) {
        return new MalformedRequest(input, cause);
      }
    },
    responseSerialize: (response) => encode(output, response),
    // Texts from a runner must not be able to control the terminal.
    responseDeserialize: (bytes) => plainMessage(output, fromBinary(output, bytes)),
  };
}

/**
 * Encodes a message. `create` fills in the fields that an initializer leaves out, and passes a whole message through.
 */
function encode(schema: DescMessage, message: unknown): Buffer {
  const bytes = toBinary(schema, create(schema, message as MessageInitShape<DescMessage>));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Copies a request and adds a request_id. The caller's message stays unchanged and starts another job when it is sent
 * again.
 */
export function withRequestId<Name extends JobRpcName>(method: Name, init: RpcRequestInit<Name>): RpcRequest<Name> {
  const schema = KernelRunnerService.method[method].input as typeof BuildRequestSchema;
  const message = clone(schema, create(schema, init as RpcRequestInit<'build'>));
  message.options ??= create(JobOptionsSchema);
  message.options.requestId ||= randomUUID();
  return message as RpcRequest<JobRpcName> as RpcRequest<Name>;
}

/**
 * Makes a unary call's request. A decision without a request_id gets one, so that a call repeated after a cut decides
 * only once.
 */
export function unaryRequest<Name extends UnaryRpcName>(name: Name, init?: RpcRequestInit<Name>): RpcRequest<Name> {
  const { input } = KernelRunnerService.method[name];
  const given = { ...init } as RpcRequestInit<UnaryRpcName> & { requestId?: string };
  if (input.fields.some(({ localName }) => localName === 'requestId')) given.requestId ||= randomUUID();
  return create(input, given) as RpcRequest<Name>;
}
