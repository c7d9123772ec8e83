/** For the client's tests: a real grpc-js server with one recorded job, and a proxy that cuts its connections. */
import { createServer, type Socket, connect } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js';
import { statusFromError } from '../contract/error-status.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { type JobEvent, JobEventSchema } from '../generated/flashcore/runner/v1/job_event_pb.js';
import { GetHostResponseSchema } from '../generated/flashcore/runner/v1/service_pb.js';
import { API_VERSION, type RpcHandlers, SERVER_OPTIONS, serviceDefinition } from '../client/grpc.ts';

export const JOB = 'jobs/5f0c1b1e-0000-4000-8000-000000000000';

/** `count` events numbered from 1, of which the last is `finished`. Each has a log line of `textLength` characters. */
export function recordedEvents(count: number, textLength = 40): JobEvent[] {
  return Array.from({ length: count }, (_, index) =>
    create(JobEventSchema, {
      job: JOB,
      sequence: BigInt(index + 1),
      payload:
        index === count - 1
          ? { case: 'finished', value: { summary: 'done' } }
          : { case: 'logLine', value: { source: 'runner', text: String(index + 1).padEnd(textLength, '.') } },
    }),
  );
}

export interface FakeRunner {
  address: string;
  port: number;
  stop(): void;
  [Symbol.dispose](): void;
}

/**
 * Serves these handlers. By default GetHost answers with a host of this API version, and every other RPC with
 * UNIMPLEMENTED.
 */
export async function serve(handlers: Partial<RpcHandlers>, address = '127.0.0.1:0'): Promise<FakeRunner> {
  const server = new Server(SERVER_OPTIONS);
  const getHost: RpcHandlers['getHost'] = (_call, done) =>
    done(null, create(GetHostResponseSchema, { host: { apiVersion: API_VERSION } }));
  server.addService(serviceDefinition, { getHost, ...handlers });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  const stop = () => server.forceShutdown();
  return { address: address.startsWith('unix:') ? address : `127.0.0.1:${port}`, port, stop, [Symbol.dispose]: stop };
}

/** Writes the events after a number, like a runner. Each event is written when `ready` has settled. */
export function replay(events: JobEvent[], ready: (event: JobEvent) => unknown = () => undefined) {
  return async (call: ServerWritableStream<unknown, unknown>, afterSequence: bigint) => {
    for (const event of events) {
      if (event.sequence <= afterSequence) continue;
      await ready(event);
      if (call.cancelled) return;
      if (!call.write({ event })) await new Promise((resolve) => call.once('drain', resolve));
    }
    call.end();
  };
}

export function fail(call: ServerWritableStream<unknown, unknown>, error: FlashcoreError): void {
  call.emit('error', statusFromError(error));
}

/**
 * A proxy in front of a port. It ends each connection after `budget()` bytes from the server (Infinity: never). If
 * `budget()` returns undefined, the proxy acts like a frozen runner, which accepts the connection and never answers.
 */
export async function cutting(
  port: number,
  budget: () => number | undefined,
): Promise<{ address: string; cuts(): number; cutAll(): void; [Symbol.dispose](): void }> {
  const sockets = new Set<Socket>();
  let cuts = 0;
  const proxy = createServer((client) => {
    const bytes = budget();
    if (bytes === undefined) return void sockets.add(client.on('error', () => client.destroy()));
    let left = bytes;
    const upstream = connect(port, '127.0.0.1');
    const end = () => [client, upstream].forEach((socket) => socket.destroy());
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', end).on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes) => {
      client.write(bytes.subarray(0, Math.min(bytes.length, left)));
      left -= bytes.length;
      if (left > 0) return;
      ++cuts;
      upstream.destroy();
      client.destroySoon();
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const bound = (proxy.address() as { port: number }).port;
  const cutAll = () => sockets.forEach((socket) => socket.destroy());
  return {
    address: `127.0.0.1:${bound}`,
    cuts: () => cuts,
    cutAll,
    [Symbol.dispose]: () => {
      proxy.close();
      cutAll();
    },
  };
}
