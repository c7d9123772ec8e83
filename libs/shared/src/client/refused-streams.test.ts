/** A stream whose request cannot be decoded ends with its status, even if its handler is still sending. */
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Server, ServerCredentials, credentials, status, type ServerDuplexStream } from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  AttachRequestSchema,
  AttachResponseSchema,
  fleetServiceDefinition,
  type AttachRequest,
  type AttachResponse,
} from '../fleet/index.ts';
import { SERVER_OPTIONS } from './grpc.ts';

const VALID = Buffer.from(
  toBinary(
    AttachRequestSchema,
    create(AttachRequestSchema, { message: { case: 'heartbeat', value: { secondsLeft: 1n } } }),
  ),
);
const MALFORMED = Buffer.from([0xff, 0xff]);
const ANSWER = create(AttachResponseSchema, { message: { case: 'dismissed', value: { reason: 'x'.repeat(100_000) } } });

const unused = (): void => undefined;

test('a malformed request ends a stream whose handler is still sending', async () => {
  const server = new Server(SERVER_OPTIONS);
  const attach = (call: ServerDuplexStream<AttachRequest, AttachResponse>): void => {
    call.on('error', unused).once('data', () => {
      for (let sent = 0; sent < 20; sent += 1) call.write(ANSWER);
      call.on('data', unused);
    });
  };
  server.addService(fleetServiceDefinition, {
    ...Object.fromEntries(Object.keys(fleetServiceDefinition).map((name) => [name, unused])),
    attach,
  });
  const address = `unix:${join(tmpdir(), `fc-refused-${randomUUID()}`)}`;
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
  });
  const client = new Client(address, credentials.createInsecure());
  try {
    const pass = (bytes: Buffer): Buffer => bytes;
    const { path } = fleetServiceDefinition['attach']!;
    const call = client.makeBidiStreamRequest(path, pass, pass, { deadline: Date.now() + 10_000 });
    const ended = new Promise<number>((resolve) => call.on('status', ({ code }) => void resolve(code)));
    call.on('error', unused).on('data', unused);
    for (const request of [VALID, MALFORMED]) call.write(request);
    expect(status[await ended]).toBe('INVALID_ARGUMENT');
  } finally {
    client.close();
    server.forceShutdown();
  }
});
