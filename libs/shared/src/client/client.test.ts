import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { listedJobs, RunnerClient } from './client.ts';
import { API_VERSION, type RpcHandlers } from './grpc.ts';
import type { ConnectionState } from './resume.ts';
import { errorFromStatus, statusFromError } from '../contract/error-status.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { HostSchema } from '../generated/flashcore/runner/v1/capabilities_pb.js';
import type { JobEvent } from '../generated/flashcore/runner/v1/job_event_pb.js';
import {
  GetHostResponseSchema,
  GetJobResponseSchema,
  ListJobsResponseSchema,
  ReadArtifactResponseSchema,
} from '../generated/flashcore/runner/v1/service_pb.js';
import { Random } from '../statistics/random.ts';
import { sha256Of } from '../contract/digest.ts';
import { cutting, fail, JOB, recordedEvents, replay, serve } from '../testing/fake-runner.ts';
import { PATIENT_MS, until } from '../testing/wait-for.ts';

test('watch() yields the whole log although its connections are cut at random bytes', async () => {
  const events = recordedEvents(120);
  const runner = await started({ watchJob: (call) => void replay(events)(call, call.request.afterSequence) });
  const random = new Random(1);
  let connections = 0;
  // The first connections survive the greeting. The others end anywhere, every sixth one within the HTTP/2 handshake.
  using proxy = await cutting(
    runner.port,
    () => (++connections <= 8 ? 1_000 : 0) + Math.floor(10 ** ((connections % 6 === 0 ? 1 : 2.5) + random.uniform())),
  );
  const states = new Set<string>();
  const clients = [];
  for (let index = 0; index < 8; ++index) clients.push(await connectTo(proxy.address));
  const watched = await Promise.all(
    clients.map(async (client, index) =>
      sequences(await collect(client.watch(JOB, { afterSequence: index, onConnection: (state) => states.add(state) }))),
    ),
  );
  expect(watched).toEqual(clients.map((_, index) => oneTo(120).slice(index)));
  expect(proxy.cuts()).toBeGreaterThan(20);
  expect(states).toEqual(new Set(['reconnecting', 'connected']));
});

test('watch() resumes streams that end early, skip events, repeat events or break', async () => {
  const events = recordedEvents(12);
  let calls = 0;
  const runner = await started({
    watchJob: (call) => {
      const from = Number(call.request.afterSequence);
      const faults = [
        () => {
          for (const event of events.slice(from, from + 3)) call.write({ event } as never);
          call.end();
        },
        () => {
          for (const event of [events[from]!, events[from + 2]!]) call.write({ event } as never);
          call.end();
        },
        () => {
          for (const event of events.slice(Math.max(0, from - 2), from + 2)) call.write({ event } as never);
          call.emit('error', { code: status.UNAVAILABLE, details: 'gone' });
        },
        () => fail(call, new FlashcoreError('DRAINING', {}, 'The runner is ending')),
        () => call.emit('error', { code: status.CANCELLED, details: 'server is shutting down' }),
      ];
      faults[calls++ % faults.length]!();
    },
  });
  const client = await connectTo(runner.address);
  expect(sequences(await collect(client.watch(JOB)))).toEqual(oneTo(12));
});

test('start() sends the same request_id until the first event arrives, and then watches that job', async () => {
  const events = recordedEvents(6);
  const seen: string[] = [];
  const runner = await started({
    build: (call) => {
      seen.push(`build ${call.request.options?.requestId}`);
      if (seen.length === 1)
        return void call.emit('error', { code: status.UNAVAILABLE, details: 'before the first event' });
      for (const event of events.slice(0, 2)) call.write({ event } as never);
      call.emit('error', { code: status.UNAVAILABLE, details: 'after the second' });
    },
    watchJob: (call) => {
      seen.push(`watch ${call.request.name} ${call.request.afterSequence}`);
      void replay(events)(call, call.request.afterSequence);
    },
  });
  const client = await connectTo(runner.address);
  const request = { kernel: { source: { case: 'kernelId', value: 'flashcore_v6' } } } as const;
  expect(sequences(await collect(client.start('build', request)))).toEqual(oneTo(6));
  const id = seen[0]!.slice('build '.length);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  expect(seen).toEqual([`build ${id}`, `build ${id}`, `watch ${JOB} 2`]);
});

test('a call with `resume` waits for a runner that is away for seconds, and reports the lost connection', async () => {
  const first = await started({});
  const client = await connectTo(first.address);
  first.stop();
  const states: ConnectionState[] = [];
  const asked = client.getJob({ name: JOB }, { resume: { onConnection: (state) => states.push(state) } });
  // eslint-disable-next-line flashcore/no-fixed-wait -- longer than a call that does not resume takes to give up
  await setTimeout(2_000);
  using again = await serve(
    { getJob: (_call, done) => done(null, create(GetJobResponseSchema, { job: { name: JOB } })) },
    first.address,
  );
  expect((await asked).job?.name).toBe(JOB);
  expect([states, again.port]).toEqual([['reconnecting', 'connected'], first.port]);
  again.stop();
  await expect(client.getJob({ name: JOB }, { resume: { giveUpAfterMs: 200 } })).rejects.toMatchObject({
    reason: 'RUNNER_UNREACHABLE',
  });
});

test('start() throws the error of the runner at once', async () => {
  const answer = new FlashcoreError(
    'KERNEL_NOT_FOUND',
    { nearest: 'flashcore_v6' },
    'Unknown kernel "flashcore_v66" (did you mean "flashcore_v6"?)',
    { violations: [{ field: 'kernel.kernel_id', description: 'unknown' }] },
  );
  const runner = await started({
    verify: (call) => fail(call, answer),
    build: (call) => fail(call, new FlashcoreError('QUEUE_FULL', {}, 'full', { retryAfterSeconds: 2.5 })),
  });
  const client = await connectTo(runner.address);
  const { error } = await rejection(collect(client.start('verify', {})));
  expect(error).toMatchObject({
    reason: 'KERNEL_NOT_FOUND',
    metadata: answer.metadata,
    message: answer.message,
    violations: answer.violations,
  });
  expect((await rejection(collect(client.start('build', {})))).error).toMatchObject({
    reason: 'QUEUE_FULL',
    retryAfterSeconds: 2.5,
  });
});

test('an aborted watch ends at once with the reason, in any state', async () => {
  const runner = await started({
    watchJob: (call) => {
      if (call.request.name === 'lost') call.emit('error', { code: status.UNAVAILABLE, details: 'gone' });
      else call.write({ event: recordedEvents(2)[0]! } as never);
    },
  });
  const client = await connectTo(runner.address);
  for (const job of [JOB, 'lost']) {
    const abort = new AbortController();
    // eslint-disable-next-line flashcore/no-fixed-wait -- time for an event, or for the next connection
    void setTimeout(150).then(() => abort.abort(new Error('pressed q')));
    const { error, milliseconds } = await rejection(collect(client.watch(job, { signal: abort.signal })));
    expect(error).toEqual(new Error('pressed q'));
    expect(milliseconds).toBeLessThan(400);
  }
  const aborted = AbortSignal.abort(new Error('before'));
  expect((await rejection(client.getHost({}, { signal: aborted }))).error).toEqual(new Error('before'));
});

test('ending the iteration cancels the stream on the server', async () => {
  let cancelled: () => void;
  const ended = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const runner = await started({
    watchJob: (call) => {
      call.on('cancelled', () => cancelled());
      call.write({ event: recordedEvents(2)[0]! } as never);
    },
  });
  const client = await connectTo(runner.address);
  for await (const event of client.watch(JOB)) {
    expect(event.sequence).toBe(1n);
    break;
  }
  await ended;
});

test('a watch of a runner that stays away throws RUNNER_UNREACHABLE after its limit', async () => {
  const runner = await started({ watchJob: (call) => void call.write({ event: recordedEvents(2)[0]! } as never) });
  let frozen = false;
  for (const leave of ['is gone and refuses connections', 'is frozen and accepts them in silence']) {
    using proxy = await cutting(runner.port, () => (frozen ? undefined : Infinity));
    const client = await connectTo(proxy.address);
    let lost = false;
    const onConnection = (state: ConnectionState) => (lost ||= state === 'reconnecting');
    const watching = rejection(collect(client.watch(JOB, { giveUpAfterMs: 700, onConnection })));
    // eslint-disable-next-line flashcore/no-fixed-wait -- time for the stream to open
    await setTimeout(100);
    frozen = leave.startsWith('is frozen');
    if (frozen) proxy.cutAll();
    else proxy[Symbol.dispose]();
    // Setting back this machine's clock meanwhile must not prolong the wait.
    const { now } = Date;
    await until(() => lost);
    Date.now = () => now() - 3_600_000;
    onTestFinished(() => void (Date.now = now));
    const { error, milliseconds } = await watching;
    Date.now = now;
    expect(error, leave).toMatchObject({
      reason: 'RUNNER_UNREACHABLE',
      metadata: { address: proxy.address, subject: JOB },
    });
    expect(milliseconds, leave).toBeLessThan(2_500);
  }
});

test('connect() names an address where nothing, another service or another version answers, within 3 s', async () => {
  const silent = createServer(() => undefined);
  const chatty = createServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  const ports = await Promise.all(
    [silent, chatty].map(
      (server) =>
        new Promise<number>((resolve) =>
          server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
        ),
    ),
  );
  onTestFinished(() => {
    silent.close();
    chatty.close();
  });
  const newer = await started({
    getHost: (_call, done) => done(null, { host: create(HostSchema, { apiVersion: 'v2' }) } as never),
  });
  const expected = [
    ['127.0.0.1:9', 'RUNNER_UNREACHABLE', 'nothing answers there (connect ECONNREFUSED 127.0.0.1:9): start one'],
    ['unix:/tmp/flashcore-nobody-listens-here', 'RUNNER_UNREACHABLE'],
    ['no-such-host.invalid:50051', 'RUNNER_UNREACHABLE', 'No name server knows no-such-host.invalid'],
    [`127.0.0.1:${ports[0]}`, 'RUNNER_UNREACHABLE'],
    [`127.0.0.1:${ports[1]}`, 'RUNNER_UNREACHABLE', 'what answers there is not a runner'],
    [newer.address, 'VERSION_MISMATCH'],
    ['127.0.0.1', 'INVALID_REQUEST'],
    ['http://127.0.0.1:50051', 'INVALID_REQUEST'],
  ] as const;
  await Promise.all(
    expected.map(async ([address, reason, text = address]) => {
      const { error, milliseconds } = await rejection(RunnerClient.connect({ address }));
      expect(error).toMatchObject({ reason });
      expect((error as Error).message).toContain(address);
      expect((error as Error).message).toContain(text);
      expect(milliseconds).toBeLessThan(3_000);
    }),
  );
});

test('connect() waits for a runner on a busy host', async () => {
  const busy = await started({
    getHost: (_call, done) =>
      // eslint-disable-next-line flashcore/no-fixed-wait -- longer than an address may stay silent
      void setTimeout(3_000).then(() => done(null, { host: create(HostSchema, { apiVersion: API_VERSION }) } as never)),
  });
  using client = await RunnerClient.connect({ address: busy.address });
  expect(client.host.apiVersion).toBe(API_VERSION);
});

test('malformed requests get INVALID_ARGUMENT in unary and streaming calls, and the server keeps running', async () => {
  const runner = await started({
    watchJob: () => {
      throw new Error('a malformed request reached its handler');
    },
  });
  const raw = new Client(runner.address, credentials.createInsecure());
  onTestFinished(() => raw.close());
  const garbage = Buffer.from([0x0a, 0xff, 0xff]);
  const same = (bytes: Buffer) => bytes;
  const unary = await new Promise<ServiceError | null>((resolve) =>
    raw.makeUnaryRequest('/flashcore.runner.v1.KernelRunnerService/GetJob', same, same, garbage, resolve),
  );
  const streaming = await new Promise<ServiceError>((resolve) =>
    raw
      .makeServerStreamRequest('/flashcore.runner.v1.KernelRunnerService/WatchJob', same, same, garbage)
      .on('error', (error) => resolve(error as ServiceError))
      .resume(),
  );
  expect([unary?.code, streaming.code]).toEqual([status.INVALID_ARGUMENT, status.INVALID_ARGUMENT]);
  expect(errorFromStatus(streaming)).toMatchObject({
    reason: 'INVALID_REQUEST',
    metadata: { message: 'WatchJobRequest' },
  });
  await connectTo(runner.address);
});

test('a status stays small however long the error is, and keeps as much of the error as fits', () => {
  const long = 'µ'.repeat(5_000);
  const error = new FlashcoreError('INVALID_MANIFEST', { path: long, key: 'launches[0].grid' }, long, {
    violations: Array.from({ length: 300 }, (_, index) => ({ field: `field${index}`, description: long })),
    retryAfterSeconds: 1,
  });
  const answer = statusFromError(error);
  const [details] = answer.metadata.get('grpc-status-details-bin');
  expect((details as Buffer).length).toBeLessThanOrEqual(1024);
  expect(Buffer.byteLength(answer.details)).toBeLessThanOrEqual(1024);
  expect(errorFromStatus(Object.assign(new Error(), answer))).toMatchObject({
    reason: 'INVALID_MANIFEST',
    metadata: { key: 'launches[0].grid' },
    retryAfterSeconds: 1,
  });
});

test('a foreign error becomes INTERNAL with an incident number and without its own text', () => {
  const answer = statusFromError(new Error('/home/somebody/secret.ts exploded'));
  expect(answer.code).toBe(status.INTERNAL);
  expect(JSON.stringify(answer)).not.toContain('secret');
  expect(errorFromStatus(Object.assign(new Error(), answer)).metadata['incident']).toMatch(/^[0-9a-f]{8}$/);
});

interface UploadPiece {
  sha256: string;
  data: Uint8Array;
  finish: boolean;
}

test('uploadFolder() sends the missing sources in pieces and no other files', async () => {
  const folder = await kernelFolder();
  const large = Buffer.alloc(200_000, 'x');
  await writeFile(join(folder, 'tables.cuh'), large);
  await writeFile(join(folder, '.env'), 'TOKEN=1');
  await writeFile(join(folder, 'profile.ncu-rep'), 'binary');
  const kept = new Map<string, Buffer>();
  const runner = await started({
    findMissingSources: (call, done) =>
      done(null, {
        missingSha256: call.request.files.map(({ sha256 }) => sha256).filter((sha256) => !kept.has(sha256)),
      } as never),
    uploadSources: (call, done) => {
      const pieces = new Map<string, Buffer[]>();
      call.on('data', ({ sha256, data, finish }: UploadPiece) => {
        pieces.set(sha256, [...(pieces.get(sha256) ?? []), Buffer.from(data)]);
        if (finish) kept.set(sha256, Buffer.concat(pieces.get(sha256)!));
      });
      call.on('end', () => done(null, { files: kept.size } as never));
    },
  });
  const client = await connectTo(runner.address);
  const reference = await client.uploadFolder(folder);
  const files = reference.source.case === 'tree' ? reference.source.value.files : [];
  expect(files.map(({ path }) => path)).toEqual(['inner/helper.cuh', 'kernel.yaml', 'mine.cu', 'tables.cuh']);
  expect([...kept].every(([sha256, bytes]) => sha256Of(bytes) === sha256)).toBe(true);
  expect(kept.get(sha256Of(large))).toEqual(large);
  kept.delete(sha256Of(large));
  await client.uploadFolder(folder);
  expect(kept.size).toBe(4);
});

test('uploadFolder() throws the error that the runner returns in the middle of an upload', async () => {
  const folder = await kernelFolder();
  await writeFile(join(folder, 'tables.cuh'), Buffer.alloc(7_000_000, 'x'));
  const runner = await started({
    findMissingSources: (call, done) =>
      done(null, { missingSha256: call.request.files.map(({ sha256 }) => sha256) } as never),
    // The server does not read the client's stream, so the stream fills up. The answer must end the client's wait for
    // room.
    uploadSources: (_call, done) =>
      // eslint-disable-next-line flashcore/no-fixed-wait -- time for the client to fill its stream
      void setTimeout(100).then(() =>
        done(statusFromError(new FlashcoreError('DISK_FULL', {}, 'No space left for sources'))),
      ),
  });
  const client = await connectTo(runner.address);
  expect((await rejection(client.uploadFolder(folder))).error).toMatchObject({ reason: 'DISK_FULL' });
  expect((await rejection(client.uploadFolder(join(folder, 'inner')))).error).toMatchObject({
    reason: 'INVALID_MANIFEST',
    metadata: { path: join(folder, 'inner', 'kernel.yaml') },
  });
});

test('the client stops reading endless replies: pages, artifacts, repeated EVENTS_EXPIRED', async () => {
  let pages = 0;
  const expired = new FlashcoreError('EVENTS_EXPIRED', { first: '5' }, 'no longer kept');
  const runner = await started({
    listJobs: (call, answer) => {
      pages += 1;
      const jobs = call.request.pageToken === '' ? [{ name: JOB }] : [];
      answer(null, create(ListJobsResponseSchema, { jobs, nextPageToken: `page ${pages}` }));
    },
    readArtifact: (call) => {
      for (let piece = 0; piece < 20; ++piece)
        call.write(create(ReadArtifactResponseSchema, { data: new Uint8Array(1024) }));
      call.end();
    },
    watchJob: (call) => fail(call, expired),
  });
  const client = await connectTo(runner.address);
  const names: string[] = [];
  for await (const { name } of listedJobs(client, {})) names.push(name);
  expect([names, pages]).toEqual([[JOB], 2]);
  const read = client.readArtifact(sha256Of('x'), { mostBytes: 10 * 1024 });
  expect((await rejection(read)).error).toMatchObject({ reason: 'DIGEST_MISMATCH' });
  const firsts: bigint[] = [];
  const watched = collect(client.watch(JOB, { onExpired: (first) => firsts.push(first) }));
  expect((await rejection(watched)).error).toMatchObject({ reason: 'EVENTS_EXPIRED' });
  expect(firsts).toEqual([5n]);
});

test('readArtifact() continues after a cut stream and refuses bytes with another digest', async () => {
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
  const runner = await started({
    readArtifact: (call) => {
      const offset = Number(call.request.offset);
      call.write({ data: bytes.subarray(offset, offset + 40_000) } as never);
      if (offset + 40_000 < bytes.length) call.emit('error', { code: status.UNAVAILABLE, details: 'cut' });
      else call.end();
    },
  });
  const client = await connectTo(runner.address);
  expect(await client.readArtifact(sha256Of(bytes))).toEqual(bytes);
  expect((await rejection(client.readArtifact('0'.repeat(64)))).error).toMatchObject({ reason: 'DIGEST_MISMATCH' });
});

test('a runner at a Unix socket may take seconds to answer, because its host may be busy', async () => {
  const folder = await temporaryFolder();
  const busy: RpcHandlers['getHost'] = (_call, done) =>
    // eslint-disable-next-line flashcore/no-fixed-wait -- longer than a host on the network gets
    void setTimeout(3_000).then(() => done(null, create(GetHostResponseSchema, { host: { apiVersion: API_VERSION } })));
  const runner = await serve({ getHost: busy }, `unix:${join(folder, 'r.sock')}`);
  onTestFinished(() => runner.stop());
  expect((await connectTo(runner.address)).host.apiVersion).toBe(API_VERSION);
});

test('a closed client does not keep the process alive, also over a Unix socket', async () => {
  const folder = await temporaryFolder();
  const runner = await serve({}, `unix:${join(folder, 'r.sock')}`);
  onTestFinished(() => runner.stop());
  const program = `import { RunnerClient } from ${JSON.stringify(new URL('./client.ts', import.meta.url).href)};
    const client = await RunnerClient.connect({ address: ${JSON.stringify(runner.address)} });
    client.close();
    console.log(client.host.apiVersion, performance.now());`;
  const start = performance.now();
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
    timeout: PATIENT_MS,
  });
  const [version, untilClosed] = stdout.trim().split(' ');
  expect(version).toBe('v1');
  // On a busy host everything takes longer, starting most of all.
  expect(performance.now() - start - Number(untilClosed)).toBeLessThan(Math.max(1_500, Number(untilClosed)));
});

async function connectTo(address: string): Promise<RunnerClient> {
  const client = await RunnerClient.connect({ address });
  onTestFinished(() => client.close());
  return client;
}

async function started(handlers: Parameters<typeof serve>[0]) {
  const runner = await serve(handlers);
  onTestFinished(() => runner.stop());
  return runner;
}

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'flashcore-client-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

async function kernelFolder(): Promise<string> {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'inner'));
  await writeFile(join(folder, 'inner', 'helper.cuh'), '// helper\n');
  await writeFile(join(folder, 'mine.cu'), '#include "inner/helper.cuh"\n');
  await writeFile(
    join(folder, 'kernel.yaml'),
    [
      'id: mine',
      'title: Mine',
      'lesson: none yet',
      'source: mine.cu',
      'min_arch: sm_80',
      'math: { inputs: fp16, accumulate: fp32 }',
      'launches:',
      '  - { entry: mine, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O] }',
      '',
    ].join('\n'),
  );
  return folder;
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

const sequences = (events: JobEvent[]) => events.map(({ sequence }) => Number(sequence));
const oneTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

async function rejection(promise: Promise<unknown>): Promise<{ error: unknown; milliseconds: number }> {
  const start = performance.now();
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { error, milliseconds: performance.now() - start };
}
