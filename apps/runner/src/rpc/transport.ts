import type { ServerHttp2Stream } from 'node:http2';
import { ServerListenerBuilder, ServerInterceptingCall, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';

/** The HTTP/2 stream below a call. */
export type Transport = Pick<ServerHttp2Stream, 'close' | 'closed' | 'session'>;

// Keyed as callers are (access/caller.ts): by the object that grpc-js hands from interceptor to handler.
const transports = new WeakMap<Metadata, Transport>();

/** Undefined where grpc-js no longer keeps it where it did. */
export const transportOf = (metadata: Metadata): Transport | undefined => transports.get(metadata);

/**
 * Remembers the stream below each call, which grpc-js has and does not give: a status waits behind what the client does
 * not read, so that nothing else ends the stream of a client that has stopped reading. `onCall` is told the client's
 * address and port.
 */
export const rememberTransports =
  (onCall: (peer: string) => void): ServerInterceptor =>
  (_, call) => {
    onCall(call.getPeer());
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        const transport = streamBelow(call);
        if (transport) transports.set(metadata, transport);
        next(metadata);
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };

/** The innermost of the calls that interceptors wrap has it as `stream`. */
function streamBelow(call: object): Transport | undefined {
  let inner: { nextCall?: object; stream?: Transport } = call;
  while (inner.nextCall) inner = inner.nextCall;
  return inner.stream;
}
