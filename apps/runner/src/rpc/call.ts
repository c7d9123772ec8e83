import {
  Metadata,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type sendUnaryData,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { asFlashcoreError, statusFromError, type CleanText } from '@flashcore/shared/contract';
import { callerOf, checkedCall, type Caller } from '../access/caller.ts';
import type { Logger } from '../log.ts';
import { storageError } from '../store/storage-error.ts';
import { type OpenStream, type OpenStreams, transportOf } from './open-streams.ts';
import type { Quotas } from '../access/quotas.ts';
import type { HostDescriber } from '../host.ts';
import type { JobPlanner } from '../jobs/job-context.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { DecisionStore } from '../store/decisions.ts';
import type { HistoryStore } from '../store/history.ts';
import type { Leaderboard } from '../store/leaderboard.ts';
import type { SourceStore } from '../store/sources.ts';

/** A call as its handler sees it. */
export interface CallContext {
  /** Aborted when the client has left, its deadline has passed, or the server stops. */
  readonly signal: AbortSignal;
  /** The caller, already authorized according to access/roles.ts. */
  readonly caller: Caller;
  /** The client's W3C trace context; undefined if it sent none. */
  readonly traceparent: string | undefined;
}

export type UnaryHandler<Request, Response> = (request: Request, context: CallContext) => Response | Promise<Response>;
/** Messages to send, in batches; the next batch is requested when the client has taken the previous ones. */
export type StreamHandler<Request, Response> = (request: Request, context: CallContext) => AsyncIterable<Response[]>;
export type UploadHandler<Request, Response> = (
  requests: AsyncIterable<Request>,
  context: CallContext,
) => Promise<Response>;

/** Reads caller and trace context from the call's metadata. */
function callOf(metadata: Metadata): Pick<CallContext, 'caller' | 'traceparent'> {
  const [traceparent] = metadata.get('traceparent');
  return { caller: callerOf(metadata), traceparent: typeof traceparent === 'string' ? traceparent : undefined };
}

/** The common part of grpc-js calls: an emitter of 'cancelled', which grpc-js also emits after a normal end. */
interface AnyCall {
  readonly cancelled: boolean;
  readonly metadata: Metadata;
  once(event: 'cancelled', listener: () => void): unknown;
  getPath(): string;
}

export interface CallWrapperOptions {
  logger: Logger;
  streams: OpenStreams;
  /** Cleans all texts in errors. */
  cleanText?: CleanText | undefined;
  /** Resolves when all stored data is on the disk; clients get no answer before. */
  synced: () => Promise<void>;
}

/**
 * Makes grpc-js handlers from ours. grpc-js hangs the client or ends the process if a handler rejects, settles a call
 * twice, writes after the end or destroys a stream. Each wrapper settles its call exactly once, and not at all if the
 * client has left.
 */
export function callWrappers({ logger, streams, cleanText, synced }: CallWrapperOptions) {
  const failed = (call: AnyCall, thrown: unknown) => {
    const error = asFlashcoreError(storageError(thrown, 'do this'));
    if (error.reason === 'INTERNAL')
      logger.error({ rpc: call.getPath(), ...error.metadata, err: thrown }, 'a call failed by a fault of the runner');
    else logger.debug({ rpc: call.getPath(), reason: error.reason, message: error.message }, 'a call was refused');
    return statusFromError(error, cleanText);
  };

  const unary =
    <Request, Response>(handler: UnaryHandler<Request, Response>): handleUnaryCall<Request, Response> =>
    (call, callback) => {
      void answer(call, callback, (context) => handler(call.request, context));
    };

  const upload =
    <Request, Response>(handler: UploadHandler<Request, Response>): handleClientStreamingCall<Request, Response> =>
    (call, callback) => {
      // The stream is not destroyed when the handler stops reading: a destroyed stream could not carry the status.
      const requests = {
        [Symbol.asyncIterator]: () => call.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Request>,
      };
      // If the client cuts the stream, it also emits 'error', which must have a listener; 'cancelled' already reports
      // the cut.
      call.on('error', (error) => logger.debug({ rpc: call.getPath(), err: error }, 'an upload was cut'));
      void answer(call, callback, (context) => handler(requests, context));
    };

  const answer = async <Response>(
    call: AnyCall,
    callback: sendUnaryData<Response>,
    work: (context: CallContext) => Response | Promise<Response>,
  ): Promise<void> => {
    const signal = signalOf(call);
    try {
      const response = await work({ signal, ...callOf(call.metadata) });
      await synced();
      if (!signal.aborted) callback(null, response);
    } catch (thrown) {
      if (!signal.aborted) callback(failed(call, thrown));
    }
  };

  const stream =
    <Request, Response>(handler: StreamHandler<Request, Response>): handleServerStreamingCall<Request, Response> =>
    (call) => {
      void send(call, handler);
    };

  const send = async <Request, Response>(
    call: ServerWritableStream<Request, Response>,
    handler: StreamHandler<Request, Response>,
  ): Promise<void> => {
    const open = streams.open({ ...checkedCall(call.metadata), transport: transportOf(call.metadata) });
    const gone = signalOf(call);
    const signal = eitherOf(gone, open.signal);
    try {
      // Sent at once, so that a client that watches a quiet job knows that it is connected.
      call.sendMetadata(new Metadata());
      for await (const batch of handler(call.request, { signal, ...callOf(call.metadata) })) {
        await synced();
        await writeAll(call, batch, { signal, open, streams });
      }
      open.signal.throwIfAborted();
      if (!gone.aborted) call.end();
    } catch (thrown) {
      // grpc-js takes the status from an emitted 'error', and ends the call with it.
      if (!gone.aborted) call.emit('error', failed(call, open.signal.aborted ? open.signal.reason : thrown));
    } finally {
      streams.close(open);
    }
  };

  return { unary, upload, stream };
}

function signalOf(call: AnyCall): AbortSignal {
  const controller = new AbortController();
  if (call.cancelled) controller.abort();
  else call.once('cancelled', () => controller.abort());
  return controller.signal;
}

/**
 * Aborted with the first of two signals. AbortSignal.any() does the same with weak references, but these keep
 * everything a call had alive until the next full collection: 85 MiB after 10,000 calls.
 */
function eitherOf(...signals: [AbortSignal, AbortSignal]): AbortSignal {
  const controller = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) controller.abort(signal.reason);
    else signal.addEventListener('abort', () => controller.abort(signal.reason), { once: true });
  }
  return controller.signal;
}

interface Writing {
  signal: AbortSignal;
  open: OpenStream;
  streams: OpenStreams;
}

/** Writes messages, waiting for the client whenever the stream's buffer is full. */
async function writeAll<Response>(
  call: ServerWritableStream<unknown, Response>,
  batch: Response[],
  { signal, open, streams }: Writing,
): Promise<void> {
  // Counts only stored events, because all other answers together are few.
  const bytes = batch.reduce((sum, message) => sum + (message instanceof Uint8Array ? message.byteLength : 0), 0);
  for (const message of batch) {
    if (signal.aborted) return;
    if (call.write(message)) continue;
    streams.holds(open, bytes);
    await drained(call, signal);
  }
  streams.holds(open, 0, { moved: true });
}

function drained(call: ServerWritableStream<unknown, unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      call.off('drain', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    call.once('drain', done);
    signal.addEventListener('abort', done, { once: true });
  });
}

/** The parts of the runner that RPC handlers use. */
export interface Services {
  jobs: Jobs;
  planner: JobPlanner;
  kernels: KernelCatalog;
  sources: SourceStore;
  artifacts: ArtifactStore;
  history: HistoryStore;
  leaderboard: Leaderboard;
  decisions: DecisionStore;
  host: HostDescriber;
  quotas: Quotas;
  ownerOf: OwnerOf;
}

/** The owner of a request's job, if the caller acts for somebody else; undefined: the caller. */
export type OwnerOf = (requestId: string) => string | undefined;
