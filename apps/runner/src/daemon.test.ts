import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, Outcome } from '@flashcore/shared/contract';
import { ALL_TESTS, until, PATIENT_MS } from '@flashcore/shared/testing';
import {
  startChildRunner,
  startChildRunnerIn,
  startChildRunnerWithDescriptors,
  unreadConnection,
  unreadWatch,
} from './testing/child-runner.ts';
import { fakePlanner } from './testing/fake-planner.ts';
import { collect, finished, firstEvent, kernel, startTestRunner, temporaryFolder } from './testing/test-runner.ts';

/** The options of a daemon whose data and socket are in the folder. */
const flagsOf = ({ path }: { path: string }): string[] => ['--data', join(path, 'data'), '--address', `unix:${path}/s`];

test('after kill -9 and a restart, a running job is INTERRUPTED with every event that a client saw, and a queued job runs', async () => {
  using folder = temporaryFolder();
  const seen: bigint[] = [];
  let running = '';
  let queued = '';
  {
    await using daemon = await startChildRunner(...flagsOf(folder));
    using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
    for await (const event of client.start('build', kernel('flood_5000000'))) {
      seen.push(event.sequence);
      running = event.job;
      if (seen.length === 2) queued = (await firstEvent(client.start('build', kernel('ok')))).job;
      if (seen.length >= 1_000) break;
    }
    await daemon.end('SIGKILL');
  }
  const restart = performance.now();
  await using daemon = await startChildRunner(...flagsOf(folder));
  using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
  const { job } = await client.getJob({ name: running });
  // A restart is promised to take at most 5 s, which test/reliability/kill.test.ts measures. Here other tests run at
  // the same time.
  expect(performance.now() - restart).toBeLessThan(15_000);
  expect(job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.INTERRUPTED });
  const last = Number(job!.lastSequence);
  expect(last).toBeGreaterThan(seen.length);
  const events = await collect(client.watch(running, { afterSequence: last - 2_000 }));
  expect(events.map(({ sequence }) => Number(sequence))).toEqual(
    Array.from({ length: 2_000 }, (_, index) => last - 1_999 + index),
  );
  expect(finished(events).summary).toBe('The runner ended while the job was running');
  const log = await collect(client.watch(queued));
  expect(log.map(({ payload }) => payload.case)).toEqual(['created', 'started', 'finished']);
  expect(finished(log).outcome).toBe(Outcome.PASSED);
  expect(finished(await collect(client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
});

test('SIGTERM refuses new work, interrupts jobs that outlast the grace period, and exits with 0', async () => {
  using folder = temporaryFolder();
  await using daemon = await startChildRunner(...flagsOf(folder), '--grace-seconds', '1');
  using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
  const events = collect(client.start('build', kernel('hang')));
  await until(async () => (await client.listJobs({ state: JobState.RUNNING })).jobs.length === 1);
  expect(await health(daemon.address)).toBe(1);
  const exit = daemon.end('SIGTERM');
  await until(async () => (await health(daemon.address)) === 2);
  // By default the client would wait for the runner to come back.
  await expect(firstEvent(client.start('build', kernel('ok'), { giveUpAfterMs: 1 }))).rejects.toMatchObject({
    message: expect.stringContaining('is shutting down') as string,
  });
  expect(finished(await events)).toMatchObject({
    outcome: Outcome.INTERRUPTED,
    summary: 'The runner was stopped while the job was running',
  });
  expect(await exit).toBe(0);
  expect(existsSync(join(folder.path, 'data', 'runner.json'))).toBe(false);
});

if (ALL_TESTS)
  test('SIGTERM lets a job finish that needs less than the grace period', async () => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner(...flagsOf(folder));
    using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
    const events = collect(client.start('build', kernel('sleep_300')));
    await until(async () => (await client.listJobs({ state: JobState.RUNNING })).jobs.length === 1);
    expect(await daemon.end('SIGTERM')).toBe(0);
    expect(finished(await events).outcome).toBe(Outcome.PASSED);
  });

test('after SIGTERM the runner ends even if a worker survives SIGKILL', async () => {
  await using fixture = await startTestRunner({
    createPlanner: () => ({ ...fakePlanner(), close: () => new Promise(() => undefined) }),
  });
  fixture.runner.stop();
  await fixture.runner.ended;
  expect(existsSync(join(fixture.dataDirectory, 'runner.json'))).toBe(false);
});

test('connections beyond half of the descriptors are refused, and connected clients are still served', async () => {
  using folder = temporaryFolder();
  await using daemon = await startChildRunnerWithDescriptors(100, ...flagsOf(folder));
  using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
  const ends = { refused: 0 };
  const idle = Array.from({ length: 200 }, () =>
    connect(`${folder.path}/s`)
      .resume()
      .on('error', () => undefined)
      .on('close', () => {
        ends.refused += 1;
      }),
  );
  await until(() => ends.refused === 151);
  expect(finished(await collect(client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
  for (const socket of idle) socket.destroy();
  await until(() => ends.refused === 200);
  using another = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
  expect(another.host.processId).toBe(daemon.child.pid);
});

if (ALL_TESTS)
  test("with 50 paused watchers and a flood of log lines, the daemon's memory stays bounded and the job is not slowed", async () => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunner(...flagsOf(folder));
    using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
    await collect(client.start('build', kernel('flood_20000'))); // Warms up the heap.
    const before = daemon.rssMiB();
    const job = client.start('build', kernel('flood_60000'));
    const { job: name } = await firstEvent(job);
    const paused = Array.from({ length: 50 }, () => unreadConnection(daemon.address));
    for (const connection of paused) unreadWatch(connection, name);
    await until(async () => (await client.getJob({ name })).job?.state === JobState.ENDED);
    expect(daemon.rssMiB() - before).toBeLessThan(100);
    for (const connection of paused) connection.destroy();
    expect(await collect(client.watch(name))).toHaveLength(60_003);
  });

// The short form has src/log.test.ts, without a process.
if (ALL_TESTS)
  test('a log pipe that nobody reads blocks nothing, and a later reader still gets the log', async () => {
    using folder = temporaryFolder();
    await using daemon = await startChildRunnerIn({ ...process.env, FLASHCORE_LOG_LEVEL: 'debug' }, ...flagsOf(folder));
    daemon.child.stderr!.pause();
    using client = await RunnerClient.connect({ address: daemon.address, timeoutMs: PATIENT_MS });
    // Each call logs a line of about 200 bytes. A pipe has room for 64 KB, a Unix socket for 100 to 300 lines.
    const refused = Array.from({ length: 500 }, (_, number) => client.getJob({ name: `jobs/none${number}` }));
    expect(new Set((await Promise.allSettled(refused)).map(({ status }) => status))).toEqual(new Set(['rejected']));
    expect(finished(await collect(client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
    daemon.child.stderr!.resume();
    await until(() => daemon.stderr.split('\n').filter((line) => line.includes('a call was refused')).length === 500);
    daemon.child.stderr!.destroy();
    expect(finished(await collect(client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
    expect(await daemon.end('SIGTERM')).toBe(0);
  });

test("a second runner on a data directory is refused with the first runner's pid, unless the first was killed", async () => {
  using folder = temporaryFolder();
  const data = ['--data', join(folder.path, 'data')];
  await using first = await startChildRunner(...data, '--address', `unix:${folder.path}/s`);
  await expect(startChildRunner(...data, '--address', `unix:${folder.path}/t`)).rejects.toThrow(
    `(process ${first.child.pid})`,
  );
  await first.end('SIGKILL');
  await using second = await startChildRunner(...data, '--address', `unix:${folder.path}/s`);
  expect(second.address).toBe(first.address);
});

test('a kernels folder that does not exist is refused at the start, and nothing is created', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  await expect(startTestRunner({ dataDirectory, kernelsDirectory: '/nonexist' })).rejects.toThrow(
    "/nonexist is not a folder: give --kernels the folder of the runner's kernels",
  );
  expect(existsSync(dataDirectory)).toBe(false);
});

test('a port in use is refused with the address', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const { port } = other.address() as { port: number };
  await expect(startTestRunner({ address: { kind: 'tcp', host: '127.0.0.1', port } })).rejects.toThrow(
    `127.0.0.1:${port} is in use`,
  );
  other.close();
});

test('an address of another machine is refused with what to give', async () => {
  // TEST-NET-1, which no machine has.
  await expect(startTestRunner({ address: { kind: 'tcp', host: '192.0.2.1', port: 50_051 } })).rejects.toThrow(
    "Give an address of this machine, or 0.0.0.0 for all of them: can't listen on 192.0.2.1:50051 (EADDRNOTAVAIL)",
  );
});

test('the runner can choose its port, and writes it to runner.json', async () => {
  await using fixture = await startTestRunner({ address: { kind: 'tcp', host: '127.0.0.1', port: 0 } });
  expect(fixture.runner.address).toMatch(/^127\.0\.0\.1:[1-9]\d+$/);
  expect(JSON.parse(readFileSync(join(fixture.dataDirectory, 'runner.json'), 'utf8'))).toEqual({
    pid: process.pid,
    address: fixture.runner.address,
    buildId: 'test',
    program: expect.any(String) as string,
    version: '0.0.0',
    embedded: false,
  });
});

test("a file at the socket's path that is not a socket is left alone", async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, 'notes');
  writeFileSync(path, 'mine');
  await expect(startTestRunner({ address: { kind: 'unix', path } })).rejects.toThrow('is in use');
  expect(readFileSync(path, 'utf8')).toBe('mine');
});

test('an embedded runner has a private socket and exits when no client and no job is left', async () => {
  using folder = temporaryFolder();
  await using fixture = await startTestRunner({
    dataDirectory: join(folder.path, 'data'),
    address: undefined,
    embedded: true,
    idleExitSeconds: 0.3,
  });
  const { runner, client } = fixture;
  expect(statSync(runner.address.slice('unix:'.length)).mode & 0o777).toBe(0o600);
  const { job } = await firstEvent(client.start('build', kernel('hang')));
  client.close();
  // eslint-disable-next-line flashcore/no-fixed-wait -- twice an idle runner's wait, while the job runs
  await new Promise((resolve) => setTimeout(resolve, 600));
  using again = await RunnerClient.connect({ address: runner.address, timeoutMs: PATIENT_MS });
  await again.cancelJob({ name: job });
  expect(finished(await collect(again.watch(job))).outcome).toBe(Outcome.CANCELLED);
  expect(again.host.embedded).toBe(true);
  again.close();
  await runner.ended;
  expect(existsSync(runner.address.slice('unix:'.length))).toBe(false);
});

/** Asks the standard health service about the whole runner: 1 is SERVING, 2 NOT_SERVING. */
async function health(address: string): Promise<number> {
  const client = new Client(address, credentials.createInsecure());
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  client.makeUnaryRequest(
    '/grpc.health.v1.Health/Check',
    (value: Buffer) => value,
    (value) => value,
    Buffer.alloc(0),
    (error, value) => (error ? reject(error) : resolve(value!)),
  );
  return (await promise.finally(() => client.close()))[1]!;
}
