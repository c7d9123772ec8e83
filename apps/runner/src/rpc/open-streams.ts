import { constants, type ServerHttp2Stream } from 'node:http2';
import { ServerListenerBuilder, ServerInterceptingCall, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import { FlashcoreError, asFlashcoreError } from '@flashcore/shared/contract';
import type { Caller } from '../access/caller.ts';

export interface StreamLimits {
  /** Most open streams of one client. */
  perClient: number;
  /** Most open streams on one connection. */
  perConnection: number;
  /** Limit on the memory of all open streams. */
  bytes: number;
  /** How long an ending stream may take to send its status to the client. */
  farewellMs: number;
}

export const STREAM_LIMITS: StreamLimits = {
  perClient: 256,
  perConnection: 100,
  bytes: 64 * 1024 ** 2,
  farewellMs: 1_000,
};

/** Minimum memory of a stream: measured at 60 to 90 KiB for a watcher that does not read. */
const STREAM_BYTES = 64 * 1024;
/** How soon streams end after their credential was revoked. */
const LOOK_EVERY_MS = 1_000;

export interface StreamOpening {
  caller: Caller;
  transport: Transport | undefined;
  /** Throws if the caller's access was revoked. */
  recheck: () => void;
}

/** A response stream, whether or not its client reads. */
export class OpenStream {
  readonly opening: StreamOpening;
  readonly #controller = new AbortController();
  /** Bytes read from the store that the client has not taken yet. */
  held = 0;
  /**
   * The count of all streams' moves when this stream last moved. A stream moves when it sends data or its client takes
   * data.
   */
  moved = 0;

  constructor(opening: StreamOpening) {
    this.opening = opening;
  }

  /** Aborted with a FlashcoreError when the stream must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(error: FlashcoreError): void {
    this.#controller.abort(error);
  }
}

/**
 * All open response streams. If one client or connection has too many, or all together hold too much memory, the one
 * that has been idle longest ends; a client that still reads it can reopen it where it ended.
 */
export class OpenStreams {
  readonly #limits: StreamLimits;
  readonly #streams = new Set<OpenStream>();
  #moves = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: StreamLimits = STREAM_LIMITS) {
    this.#limits = limits;
  }

  get count(): number {
    return this.#streams.size;
  }

  open(opening: StreamOpening): OpenStream {
    const stream = new OpenStream(opening);
    stream.moved = ++this.#moves;
    this.#streams.add(stream);
    this.#bytes += STREAM_BYTES;
    if (opening.caller.authenticated) this.#timer ??= setInterval(() => this.#recheck(), LOOK_EVERY_MS).unref();
    const { caller, transport } = opening;
    const session = transport?.session;
    this.#keepTo('client', this.#limits.perClient, ({ opening: other }) => other.caller.name === caller.name);
    if (session)
      this.#keepTo(
        'connection',
        this.#limits.perConnection,
        ({ opening: other }) => other.transport?.session === session,
      );
    this.#keepToMemory();
    return stream;
  }

  /** Updates the bytes that a stream holds; `moved` means that its client took some. */
  holds(stream: OpenStream, bytes: number, { moved = false } = {}): void {
    if (!this.#streams.has(stream)) return;
    this.#bytes += bytes - stream.held;
    stream.held = bytes;
    if (moved) stream.moved = ++this.#moves;
    this.#keepToMemory();
  }

  close(stream: OpenStream): void {
    if (!this.#streams.delete(stream)) return;
    this.#bytes -= STREAM_BYTES + stream.held;
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #keepTo(limit: 'client' | 'connection', most: number, among: (stream: OpenStream) => boolean): void {
    const streams = [...this.#streams].filter(among);
    if (streams.length > most)
      this.#endOldest(streams, limit, `${streams.length} streams of this ${limit} are open, and ${most} are served`);
  }

  #keepToMemory(): void {
    while (this.#bytes > this.#limits.bytes && this.#streams.size > 1)
      this.#endOldest([...this.#streams], 'memory', 'all streams together hold more than the runner has for them');
  }

  #endOldest(streams: readonly OpenStream[], limit: string, why: string): void {
    const oldest = streams.reduce((a, b) => (b.moved < a.moved ? b : a));
    this.#end(
      oldest,
      new FlashcoreError(
        'STREAM_ENDED',
        { limit },
        `This stream has been idle longest, and ${why}: watch the job again after the last event received (WatchJob, after_sequence), with fewer streams at once`,
        { retryAfterSeconds: 1 },
      ),
    );
  }

  #recheck(): void {
    for (const stream of this.#streams) {
      if (!stream.opening.caller.authenticated) continue;
      try {
        stream.opening.recheck();
      } catch (error) {
        // Thrown here, the error would end the runner. A token list that can't be read admits no one and ends every
        // stream.
        this.#end(stream, asFlashcoreError(error));
      }
    }
  }

  /** The status waits behind data that the client does not read, so the stream is reset after some time. */
  #end(stream: OpenStream, error: FlashcoreError): void {
    this.close(stream);
    stream.end(error);
    const { transport } = stream.opening;
    if (!transport) return;
    // gRPC clients read these as RESOURCE_EXHAUSTED and as CANCELLED.
    const code = error.reason === 'STREAM_ENDED' ? constants.NGHTTP2_ENHANCE_YOUR_CALM : constants.NGHTTP2_CANCEL;
    setTimeout(() => {
      if (!transport.closed) transport.close(code);
    }, this.#limits.farewellMs).unref();
  }
}

/** The HTTP/2 stream under a call. */
type Transport = Pick<ServerHttp2Stream, 'close' | 'closed' | 'session'>;

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

/** The HTTP/2 stream, which is the field `stream` of the innermost call that interceptors wrap. */
function streamBelow(call: object): Transport | undefined {
  let inner: { nextCall?: object; stream?: Transport } = call;
  while (inner.nextCall) inner = inner.nextCall;
  return inner.stream;
}
