import type { ServerHttp2Stream } from 'node:http2';
import { ServerListenerBuilder, ServerInterceptingCall, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';

/** The HTTP/2 stream under a call. */
export type Transport = Pick<ServerHttp2Stream, 'close' | 'closed' | 'session'>;

// Keyed like callers (access/caller.ts): by the object that grpc-js hands from interceptor to handler.
const transports = new WeakMap<Metadata, Transport>();

/** Undefined if grpc-js no longer keeps the stream in its current place. */
export const transportOf = (metadata: Metadata): Transport | undefined => transports.get(metadata);

/**
 * Remembers the HTTP/2 stream under each call, which grpc-js does not expose. A status waits behind data that the
 * client does not read, so only this stream can end a call whose client has stopped reading. `onCall` gets the client's
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

/** The stream is the `stream` of the innermost call that interceptors wrap. */
function streamBelow(call: object): Transport | undefined {
  let inner: { nextCall?: object; stream?: Transport } = call;
  while (inner.nextCall) inner = inner.nextCall;
  return inner.stream;
}
