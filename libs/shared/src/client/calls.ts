/** Single calls over a grpc-js channel: promises and async iterables that end with the caller's signal. */
import { once } from 'node:events';
import {
  type CallOptions as ChannelCallOptions,
  type Client,
  Metadata,
  type MethodDefinition,
  type ServiceError,
} from '@grpc/grpc-js';
import {
  type RpcName,
  type RpcRequest,
  type RpcResponse,
  type ServerStreamingRpcName,
  serviceDefinition,
  type UnaryRpcName,
} from './grpc.ts';

interface SingleCallOptions {
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
}

type NamedMethod<Name extends RpcName> = MethodDefinition<RpcRequest<Name>, RpcResponse<Name>>;

/** One request, one answer. Rejects with grpc-js' ServiceError, or the signal's reason. */
export function callUnary<Name extends UnaryRpcName>(
  client: Client,
  name: Name,
  request: RpcRequest<Name>,
  options: SingleCallOptions,
): Promise<RpcResponse<Name>> {
  const { path, requestSerialize, responseDeserialize } = serviceDefinition[name] as NamedMethod<Name>;
  return settle(options.signal, (done) =>
    client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      new Metadata(),
      deadline(options),
      done,
    ),
  );
}

/** One request, many answers. Ending the iteration cancels the call. */
export async function* callStreaming<Name extends ServerStreamingRpcName>(
  client: Client,
  name: Name,
  request: RpcRequest<Name>,
  { signal, onHeaders }: { signal?: AbortSignal | undefined; onHeaders?: () => void },
): AsyncGenerator<RpcResponse<Name>, void, undefined> {
  signal?.throwIfAborted();
  const { path, requestSerialize, responseDeserialize } = serviceDefinition[name] as NamedMethod<Name>;
  const call = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
  const cancel = () => call.cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  if (onHeaders) call.once('metadata', onHeaders);
  // The iteration reports errors. This listener swallows the CANCELLED error if the iteration was abandoned.
  call.on('error', () => undefined);
  try {
    for await (const response of call) yield response as RpcResponse<Name>;
  } finally {
    signal?.removeEventListener('abort', cancel);
    call.cancel();
  }
}

/** Many requests, one answer. The next request is taken only when the channel has room for it. */
export async function callUpload(
  client: Client,
  requests: Iterable<RpcRequest<'uploadSources'>>,
  options: SingleCallOptions,
): Promise<RpcResponse<'uploadSources'>> {
  const { path, requestSerialize, responseDeserialize } =
    serviceDefinition.uploadSources as NamedMethod<'uploadSources'>;
  return settle(options.signal, (done) => {
    const ended = new AbortController();
    const call = client.makeClientStreamRequest<RpcRequest<'uploadSources'>, RpcResponse<'uploadSources'>>(
      path,
      requestSerialize,
      responseDeserialize,
      new Metadata(),
      deadline(options),
      (error, response) => {
        ended.abort();
        done(error, response);
      },
    );
    const send = async () => {
      for (const request of requests) {
        if (ended.signal.aborted) return;
        if (!call.write(request)) await once(call, 'drain', { signal: ended.signal });
      }
      call.end();
    };
    send().catch((error: unknown) => {
      // If the runner answers before the upload is complete, the answer aborts the wait for room, and this error is
      // ignored.
      if (!ended.signal.aborted) call.emit('error', error);
    });
    return call;
  });
}

const deadline = ({ timeoutMs }: SingleCallOptions): ChannelCallOptions =>
  timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs };

function settle<Response>(
  signal: AbortSignal | undefined,
  begin: (done: (error: ServiceError | null, response?: Response) => void) => { cancel(): void },
): Promise<Response> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const call = begin((error, response) => {
      signal?.removeEventListener('abort', abort);
      if (error === null) resolve(response as Response);
      else reject(signal?.aborted ? (signal.reason as Error) : error);
    });
    const abort = () => call.cancel();
    signal?.addEventListener('abort', abort, { once: true });
  });
}
