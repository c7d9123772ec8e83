import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { readFileSync } from 'node:fs';
import { Client, credentials, status, type ServiceError } from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, WatchJobRequestSchema, errorFromStatus, type FlashcoreError } from '@flashcore/shared/contract';
import { missing, until, PATIENT_MS } from '@flashcore/shared/testing';
import { initTls } from '../access/certificates.ts';
import { LOCAL_CALLER } from '../access/caller.ts';
import { TokenFile } from '../access/credential-files.ts';
import { unreadConnection, unreadWatch } from '../testing/child-runner.ts';
import { collect, finished, firstEvent, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { OpenStreams } from './open-streams.ts';

const LOOPBACK = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;
const KIB = 1024;

test('if streams hold too much memory, those that have been idle longest end, as many as needed', () => {
  const streams = new OpenStreams({ perClient: 99, perConnection: 99, bytes: 500 * KIB, farewellMs: 1 });
  const open = () => streams.open({ caller: LOCAL_CALLER, transport: undefined, recheck: () => undefined });
  const all = Array.from({ length: 5 }, open);
  const ended = (): number[] => all.flatMap(({ signal }, index) => (signal.aborted ? [index] : []));
  streams.holds(all[0]!, 0, { moved: true });
  expect(ended()).toEqual([]);
  streams.holds(all[4]!, 250 * KIB);
  expect(ended()).toEqual([1, 2]);
  expect(all[1]!.signal.reason).toMatchObject({ reason: 'STREAM_ENDED', metadata: { limit: 'memory' } });
  streams.close(all[4]!);
  streams.close(all[4]!);
  all.push(open(), open(), open(), open());
  expect([ended(), streams.count]).toEqual([[1, 2], 6]);
  // The last stream stays, even if it alone exceeds the limit.
  streams.holds(all[8]!, 900 * KIB, { moved: true });
  expect(streams.count).toBe(1);
});

test("beyond one client's limit its oldest idle stream ends; our client reopens it and misses nothing", async () => {
  await using fixture = await startTestRunner({ maxStreamsPerClient: 4 });
  const { job } = await firstEvent(fixture.client.start('build', kernel('ticks_150')));
  const clients = await Promise.all(
    Array.from({ length: 6 }, () => RunnerClient.connect({ address: fixture.runner.address, timeoutMs: PATIENT_MS })),
  );
  const logs = await Promise.all(clients.map((client) => collect(client.watch(job))));
  clients.forEach((client) => client.close());
  for (const log of logs) {
    expect(log.map(({ sequence }) => Number(sequence))).toEqual(Array.from({ length: 153 }, (_, index) => index + 1));
    expect(finished(log).summary).toBe('passed');
  }
});

test('a foreign client learns why its stream ended and how to continue; other connections stay', async () => {
  await using fixture = await startTestRunner({ streams: { perConnection: 2 } });
  const { job } = await firstEvent(fixture.client.start('build', kernel('hang')));
  const events = fixture.client.watch(job);
  await events.next();
  const client = new Client(fixture.runner.address, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const ends = Array.from({ length: 3 }, () => watchRaw(client, job));
  const error = await Promise.race(ends);
  expect({
    code: error.code,
    ...(({ reason, metadata }: FlashcoreError) => ({ reason, metadata }))(errorFromStatus(error)),
  }).toEqual({
    code: status.RESOURCE_EXHAUSTED,
    reason: 'STREAM_ENDED',
    metadata: { limit: 'connection' },
  });
  expect(errorFromStatus(error).message).toContain('after_sequence');
  client.close();
  await fixture.client.cancelJob({ name: job });
  expect(finished(await collect(events)).summary).toBe('Cancelled while it was running');
});

test('streams whose client does not read are reset, and make room for others', async () => {
  await using fixture = await startTestRunner({ maxStreamsPerClient: 5, streams: { farewellMs: 20 } });
  const { job } = await firstEvent(fixture.client.start('build', kernel('flood_20000')));
  await until(async () => (await fixture.client.getJob({ name: job })).job?.state === JobState.ENDED);
  const five = () => Array.from({ length: 5 }, () => unreadWatch(unreadConnection(fixture.runner.address), job));
  const first = five();
  // The connections of the first streams accept no more data.
  await until(() => first.every(({ readableLength }) => readableLength >= 63 * KIB));
  const second = five();
  await until(() => first.every(({ closed }) => closed));
  expect(first.map(({ rstCode }) => rstCode)).toEqual(first.map(() => constants.NGHTTP2_ENHANCE_YOUR_CALM));
  expect(second.map(({ closed }) => closed)).toEqual(second.map(() => false));
  expect(await collect(fixture.client.watch(job, { afterSequence: 20_000 }))).toHaveLength(3);
  // A reset during the runner's end is not an error.
  for (const { session } of [...first, ...second]) session?.destroy();
});

test('if a credential can’t be checked any more, its stream ends, but the runner does not', async () => {
  const streams = new OpenStreams();
  const recheck = (): void => void JSON.parse('[{"name": ');
  const caller = { name: 'ada', role: 'submitter', authenticated: true } as const;
  const { signal } = streams.open({ caller, transport: undefined, recheck });
  await once(signal, 'abort');
  expect([signal.reason, streams.count]).toEqual([expect.objectContaining({ reason: 'INTERNAL' }), 0]);
});

test.skipIf(missing('openssl'))(
  "a token that is revoked ends the streams that it opened, and nobody else's",
  async () => {
    using data = temporaryFolder();
    const folder = join(data.path, 'tls');
    initTls(folder, []);
    const authority = readFileSync(join(folder, 'ca.crt'));
    const file = new TokenFile(data.path);
    const tokens = ['ada', 'eve'].map((name) => file.add(name));
    await using fixture = await startTestRunner(
      { dataDirectory: data.path, address: LOOPBACK, security: { folder, clients: 'token' } },
      { authority, token: tokens[0] },
    );
    using eve = await RunnerClient.connect({
      address: fixture.runner.address,
      security: { authority, token: tokens[1] },
    });
    const { job } = await firstEvent(fixture.client.start('build', kernel('hang')));
    const [mine, hers] = [fixture.client.watch(job), eve.watch(job)];
    await Promise.all([mine.next(), hers.next()]);
    const rest = collect(hers);
    file.revoke('eve');
    await expect(rest).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' });
    await fixture.client.cancelJob({ name: job });
    expect(finished(await collect(mine)).summary).toBe('Cancelled by ada while it was running');
  },
);

test('a connection is closed if its preface is incomplete, and kept open if it is complete', async () => {
  await using fixture = await startTestRunner({ address: LOOPBACK, beginWithinMs: 300 });
  const port = Number(fixture.runner.address.split(':')[1]);
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
  const [silent, half] = ['', preface.slice(0, 12)].map((words) => {
    const socket = connect(port, '127.0.0.1', () => void socket.write(words));
    return socket.resume();
  });
  const whole = connectHttp2(`http://127.0.0.1:${port}`);
  await Promise.all([silent!, half!].map((socket: Socket) => once(socket, 'close')));
  const [pinged] = await Promise.all([
    new Promise((resolve) => whole.ping((error) => resolve(error))),
    fixture.client.listJobs(),
  ]);
  expect(pinged).toBeNull();
  whole.destroy();
});

test.skipIf(missing('openssl'))(
  'a secured connection that makes no call is closed, and one that has made a call is not',
  async () => {
    using data = temporaryFolder();
    const folder = join(data.path, 'tls');
    initTls(folder, []);
    const [ca, cert, key] = ['ca.crt', 'client.crt', 'client.key'].map((name) => readFileSync(join(folder, name)));
    await using fixture = await startTestRunner(
      { address: LOOPBACK, security: { folder, clients: 'certificate' }, beginWithinMs: 300 },
      { authority: ca!, certificate: cert, key },
    );
    const socket = connectTls({
      port: Number(fixture.runner.address.split(':')[1]),
      ca,
      cert,
      key,
      ALPNProtocols: ['h2'],
    });
    await once(socket.resume(), 'close');
    const { job } = await firstEvent(fixture.client.start('build', kernel('sleep_700')));
    // The stream outlives the limit without a reconnection.
    const states: string[] = [];
    expect(
      finished(await collect(fixture.client.watch(job, { onConnection: (state) => states.push(state) }))).summary,
    ).toBe('passed');
    expect(states).toEqual([]);
  },
);

/** Watches a job as any gRPC client would, and returns the status that ended the stream. */
function watchRaw(client: Client, name: string): Promise<ServiceError> {
  const pass = (value: Buffer): Buffer => value;
  const request = Buffer.from(toBinary(WatchJobRequestSchema, create(WatchJobRequestSchema, { name })));
  const call = client.makeServerStreamRequest('/flashcore.runner.v1.KernelRunnerService/WatchJob', pass, pass, request);
  call.on('data', () => undefined);
  return new Promise((resolve) => call.on('error', (error) => resolve(error as ServiceError)));
}
