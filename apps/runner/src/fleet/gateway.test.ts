import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { expect, test } from 'vitest';
import {
  AcceptabilitySchema,
  ArtifactKind,
  JobErrorSchema,
  JobResultSchema,
  Outcome,
  WarningSchema,
  BuildResultSchema,
  FlashcoreError,
  statusFromError,
  type JobEvent,
  type JobResult,
} from '@flashcore/shared/contract';
import {
  AttachResponseSchema,
  fleetServiceDefinition,
  type AttachRequest,
  type AttachResponse,
} from '@flashcore/shared/fleet';
import { parseShape } from '@flashcore/shared/kernels';
import { freePort, missing, until } from '@flashcore/shared/testing';
import { initTls, readServerTls } from '../access/certificates.ts';
import type { JobBody } from '../jobs/job-context.ts';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { acceptable } from '../testing/fake-planner.ts';
import { flyTestPilot } from '../testing/test-pilot.ts';
import { startTestCluster, type TestClusterOptions, attempts, isGapless, warnings } from '../testing/test-cluster.ts';
import { collect, finished, kernel, temporaryFolder } from '../testing/test-runner.ts';
import { GatewayUnreachable, UNREACHABLE_EXITS } from './pilot-connection.ts';

const SAMPLES = Buffer.from('bytes that a job made');
const SHA256 = createHash('sha256').update(SAMPLES).digest('hex');
/** A cluster whose pilots run `body` for every kernel. */
const startCluster = (body: (attempt: number) => JobBody, options: Omit<TestClusterOptions, 'body'> = {}) =>
  startTestCluster({ ...options, body, onRunner: ({ artifacts }) => void artifacts.put(SAMPLES) });

const PASSED = { outcome: Outcome.PASSED, summary: 'passed', result: create(JobResultSchema) };

const warn =
  (text: string): JobBody =>
  ({ emit }) => {
    emit({ case: 'warning', value: create(WarningSchema, { message: text }) });
    return Promise.resolve(PASSED);
  };

test("a pilot's runner knows each job's owner, so that a process that ran for one owner serves no other", async () => {
  const told: JobBody = (job) => warn(`of ${job.owner}`)(job);
  await using cluster = await startCluster(() => told, { owners: ['ada', 'bob'] });
  const runs = [];
  for (let job = 0; job < 3; job += 1)
    runs.push(warnings(await collect(cluster.client.start('verify', kernel('fa_v1_baseline')))));
  expect([runs, cluster.pilots.size]).toEqual([[['of ada'], ['of bob'], ['of local']], 1]);
});

test('a job runs on a pilot submitted for it, and a second job runs on the same pilot', async () => {
  await using cluster = await startCluster(() => warn('from the node'));
  for (let job = 0; job < 2; job += 1) {
    const events = await collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
    expect(isGapless(events)).toBe(true);
    expect(attempts(events)).toEqual(['1: ']);
    expect(warnings(events)).toEqual(['from the node']);
    expect(finished(events).outcome).toBe(Outcome.PASSED);
  }
  expect(cluster.pilots.size).toBe(1);
  const { host } = await cluster.client.getHost({});
  expect(host!.devices.map(({ deviceId, name }) => [deviceId, name])).toEqual([['slurm:gpu', 'NVIDIA L4']]);
  expect(host!.fleet).toMatchObject({ partitions: [{ name: 'gpu', freePilots: 1, waitingJobs: 0 }], requeues: 0n });
});

test('jobs run in parallel, each on its own pilot', async () => {
  let running = 0;
  let most = 0;
  const body: JobBody = async () => {
    most = Math.max(most, (running += 1));
    await until(() => most === 2);
    running -= 1;
    return PASSED;
  };
  await using cluster = await startCluster(() => body);
  const jobs = ['fa_v1_baseline', 'flashcore_v6'].map((id) => collect(cluster.client.start('verify', kernel(id))));
  await Promise.all(jobs);
  expect(most).toBe(2);
});

test('a pilot that the scheduler ends gives its job back, and the client still sees one stream', async () => {
  await using cluster = await startCluster((attempt) =>
    attempt > 1
      ? warn('second')
      : async ({ emit, signal }) => {
          emit({ case: 'warning', value: create(WarningSchema, { message: 'first' }) });
          return untilStopped(signal);
        },
  );
  const events: JobEvent[] = [];
  for await (const event of cluster.client.start('verify', kernel('fa_v1_baseline'))) {
    events.push(event);
    if (warnings([event])[0] === 'first') cluster.pilots.get('1')!.terminate();
  }
  expect(isGapless(events)).toBe(true);
  expect(attempts(events)).toEqual(['1: ', '2: the scheduler ends the pilot']);
  expect(warnings(events)).toEqual(['first', 'second']);
  expect(finished(events).outcome).toBe(Outcome.PASSED);
  const { host } = await cluster.client.getHost({});
  expect(host!.fleet).toMatchObject({ requeues: 1n, refusedEvents: 0n });
});

test('a job that a node could not carry out, for example on a full disk, runs on another pilot', async () => {
  const error = create(JobErrorSchema, { reason: 'DISK_FULL', message: 'no space is left' });
  await using cluster = await startCluster((attempt) =>
    attempt > 1 ? warn('second') : () => Promise.resolve({ ...PASSED, outcome: Outcome.ERROR, error }),
  );
  const events = await collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  expect(isGapless(events)).toBe(true);
  expect(attempts(events)).toEqual([
    '1: ',
    "2: Free space on the disk of the node's scratch folder, or lower scratch_gib: no space is left",
  ]);
  expect(finished(events).outcome).toBe(Outcome.PASSED);
  // The first pilot got no second job.
  expect([...cluster.pilots.keys()]).toEqual(['1', '2']);
});

test.each([
  ['and that it can be accepted', acceptable(5)],
  [
    'without saying whether it can be accepted',
    create(JobResultSchema, { ...acceptable(5), acceptability: undefined }),
  ],
  [
    'and that it only lacks notes',
    create(JobResultSchema, {
      ...acceptable(5),
      acceptability: create(AcceptabilitySchema, { notesWanted: true, over: 'none' }),
    }),
  ],
])('a pilot cannot rank a run by claiming that it is ranked %s', async (_, { acceptability, ranking, variants }) => {
  const result = create(JobResultSchema, { acceptability, ranking, variants });
  await using cluster = await startCluster(() => () => Promise.resolve({ ...PASSED, result }));
  const request = { ...kernel('fa_v1_baseline'), verify: { seedCount: 1 } };
  const [{ job }] = (await collect(cluster.client.start('runExperiment', request))) as [JobEvent];
  const told = (await cluster.client.getJob({ name: job })).result!;
  expect([told.ranking!.ranked, told.ranking!.reasons.join('; ')]).toEqual([
    false,
    expect.stringContaining('1 of at least 5 seeds a case') as string,
  ]);
  expect(told.acceptability?.possible ?? false).toBe(false);
  await expect(cluster.client.accept({ job, over: 'none', notes: 'padded' })).rejects.toMatchObject({
    reason: 'NOT_ACCEPTABLE',
  });
  expect((await cluster.client.listExperiments({})).experiments[0]!.ranking!.ranked).toBe(false);
});

/** An acceptable result as a pilot sends it; `over`: the champion with which the pilot claims to have compared it. */
function fromPilot(over?: string): JobResult {
  const { acceptability, ranking, variants, plan } = acceptable(5, over);
  return create(JobResultSchema, { acceptability, ranking, variants, plan, provenance: { runnerBuildId: 'test' } });
}

/**
 * A result in which a pilot claims another champion, plan, problem, dtype and protocol, and another kernel below its
 * own on the ladder.
 */
function untruthful(): JobResult {
  const result = fromPilot('jobs/00000000-0000-4000-8000-000000000000');
  Object.assign(result.provenance!, { problem: 'row_norm', dtype: 'bf16', protocol: 'mine', plan: 'final' });
  Object.assign(result.plan!, { name: 'final' });
  Object.assign(result.acceptability!, { replaces: 'another' });
  return Object.assign(result, { lineage: ['fa_v1_baseline', 'flashcore_v12'] });
}

test("the gateway's own facts about a run replace a pilot's claims", async () => {
  await using cluster = await startCluster(() => () => Promise.resolve({ ...PASSED, result: untruthful() }));
  const [{ job }] = (await collect(cluster.client.start('runExperiment', kernel('fa_v1_baseline')))) as [JobEvent];
  const { champion } = await cluster.client.accept({ job, over: 'none' });
  // Everything that shows the verdict also names the pilot that reported it.
  const { hostName, schedulerJob } = (await cluster.client.getJob({ name: job })).result!.provenance!;
  expect([hostName, schedulerJob]).toEqual([expect.stringMatching(/./), expect.stringMatching(/^\d+$/)]);
  const pilot = { hostName, schedulerJob };
  expect((await cluster.client.listExperiments({})).experiments).toMatchObject([pilot]);
  expect(champion).toMatchObject({
    kernelId: 'fa_v1_baseline',
    after: '',
    plan: 'merge',
    problem: 'attention',
    dtype: 'fp16',
    protocol: PROTOCOL_VERSION,
    ...pilot,
    decision: {
      evidence: { plan: 'merge', over: 'none', gatesDigest: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    },
  });
});

test.each<[string, Outcome, (result: JobResult) => void, RegExp]>([
  ['failed', Outcome.FAILED, () => undefined, /did not pass/],
  [
    'measured another shape',
    Outcome.PASSED,
    ({ variants: [variant] }) => (variant!.benchmarks[0]!.shape = parseShape('1x1x64x64')),
    /measured 1x1x64x64, which was not asked for/,
  ],
])('a pilot cannot make acceptable a run that %s', async (_, outcome, change, reason) => {
  const result = fromPilot();
  change(result);
  await using cluster = await startCluster(() => () => Promise.resolve({ ...PASSED, outcome, result }));
  const [{ job }] = (await collect(cluster.client.start('runExperiment', kernel('fa_v1_baseline')))) as [JobEvent];
  await expect(cluster.client.accept({ job, over: 'none' })).rejects.toMatchObject({
    reason: 'NOT_ACCEPTABLE',
    message: expect.stringMatching(reason) as string,
  });
});

test('a pilot cannot make a job without a kernel acceptable', async () => {
  await using cluster = await startCluster(() => () => Promise.resolve({ ...PASSED, result: fromPilot() }));
  const [{ job }] = (await collect(cluster.client.start('benchmark', { settings: { sdpaBackends: ['flash'] } }))) as [
    JobEvent,
  ];
  await expect(cluster.client.accept({ job, over: 'none' })).rejects.toMatchObject({ reason: 'NOT_ACCEPTABLE' });
});

test("a job's files reach the gateway before the event that names them", async () => {
  await using cluster = await startCluster(() => ({ emit }) => {
    emit({
      case: 'buildResult',
      value: create(BuildResultSchema, {
        buildId: 'b',
        artifacts: [{ sha256: SHA256, kind: ArtifactKind.CUBIN, fileName: 'x', sizeBytes: BigInt(SAMPLES.length) }],
      }),
    });
    return Promise.resolve(PASSED);
  });
  const seen: string[] = [];
  for await (const { payload } of cluster.client.start('verify', kernel('fa_v1_baseline'))) {
    if (payload.case !== 'buildResult') continue;
    seen.push(String(await cluster.client.readArtifact(SHA256)));
  }
  expect(seen).toEqual([String(SAMPLES)]);
});

test.skipIf(missing('openssl'))(
  'a pilot with TLS stays connected after the time limit for starting a connection',
  async () => {
    using folder = temporaryFolder();
    const tls = join(folder.path, 'tls');
    initTls(tls, ['localhost']);
    await using cluster = await startCluster(
      () =>
        ({ signal }) =>
          // eslint-disable-next-line flashcore/no-fixed-wait -- longer than beginWithinMs
          sleep(1_500, PASSED, { signal }),
      {
        tls,
        beginWithinMs: 700,
      },
    );
    const events = await collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
    expect(attempts(events)).toEqual(['1: ']);
  },
);

/** The error that ends a pilot that is given this gateway address. */
const landingOf = (gateway: string, tls?: string): Promise<unknown> =>
  flyTestPilot({
    gateway,
    tls,
    token: 't',
    body: () => Promise.resolve(PASSED),
    signal: new AbortController().signal,
    firstReachMs: 1_000,
  }).catch((error: unknown) => error);

test('a pilot that gets no answer ends soon, and its exit code says why', async () => {
  expect(await landingOf(`127.0.0.1:${await freePort()}`)).toMatchObject({
    exitCode: UNREACHABLE_EXITS.noAnswer,
    message: expect.stringMatching(/^Give "reach" .*ECONNREFUSED/) as string,
    said: expect.stringMatching(/^(?:AggregateError|connect) ?.*ECONNREFUSED \S+$/) as string,
  });
  expect(await landingOf('login1.invalid:50052')).toMatchObject({ exitCode: UNREACHABLE_EXITS.noHost });
  // A server that accepts connections and sends nothing.
  const sockets = new DisposableStack();
  await using silent = createServer((socket) => void sockets.defer(() => socket.destroy())).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  expect(await landingOf(`127.0.0.1:${(silent.address() as AddressInfo).port}`)).toMatchObject({
    exitCode: UNREACHABLE_EXITS.noAnswer,
  });
  sockets.dispose();
});

test('a pilot says why it has no answer while it still tries', async () => {
  const heard: GatewayUnreachable[] = [];
  const fly = (gateway: string) =>
    flyTestPilot({
      gateway,
      token: 't',
      body: () => Promise.resolve(PASSED),
      signal: new AbortController().signal,
      firstReachMs: 4_000,
      onUnreached: (problem) => heard.push(problem),
    }).catch((error: unknown) => error);
  const since = performance.now();
  const landing = fly(`127.0.0.1:${await freePort()}`);
  await until(() => heard.length > 0);
  expect(performance.now() - since).toBeLessThan(4_000);
  expect(await landing).toBeInstanceOf(GatewayUnreachable);
  expect(heard).toEqual([
    expect.objectContaining({
      exitCode: UNREACHABLE_EXITS.noAnswer,
      said: expect.stringContaining('ECONNREFUSED') as string,
    }),
  ]);
});

test.each([
  ['device', { device: 'NVIDIA H200' }, 'partition gpu has NVIDIA H200, a pilot found NVIDIA L4'],
  ['version', { buildId: 'another' }, "Put the gateway's own bundle on the nodes"],
])('a pilot with the wrong %s is refused; pilot, fleet and waiting job show the reason', async (_, options, cause) => {
  await using cluster = await startCluster(() => warn('never'), options);
  const job = collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  const problem = async () => (await cluster.client.getHost({})).host!.fleet!.schedulerProblem;
  await until(async () => (await problem()) !== undefined);
  expect(await problem()).toMatch(/^partition gpu: pilot 1 on .* was refused: /);
  expect(await problem()).toContain(cause);
  const { message } = (await cluster.pilots.get('1')!.landed) as Error;
  expect(message).toMatch(/^The gateway refused this pilot\. /);
  expect(message).toContain(cause);
  await cluster.client.cancelJob({ name: (await cluster.client.listJobs({})).jobs[0]!.name });
  const [heard] = warnings(await job);
  expect(heard).toMatch(/^No pilot yet. partition gpu: pilot 1 on .* was refused: /);
  expect(heard).toContain(cause);
});

test('a pilot waits if the gateway answers that its disk is full', async () => {
  const since = performance.now();
  const server = new Server();
  server.addService(fleetServiceDefinition, {
    attach: (call: ServerDuplexStream<AttachRequest, AttachResponse>) => {
      if (performance.now() - since < 2_500)
        return void call.emit('error', statusFromError(new FlashcoreError('DISK_FULL', {}, 'no space is left')));
      call.write(create(AttachResponseSchema, { message: { case: 'dismissed', value: { reason: 'enough' } } }));
      call.end();
    },
  });
  const bind = promisify(server.bindAsync.bind(server));
  const port = await bind('127.0.0.1:0', ServerCredentials.createInsecure());
  expect(await landingOf(`127.0.0.1:${port}`)).toBeUndefined();
  expect(performance.now() - since).toBeGreaterThan(2_500);
  server.forceShutdown();
});

test('a pilot reports that the gateway does not know its token', async () => {
  await using cluster = await startCluster(() => warn('never'));
  expect(await landingOf(cluster.reach)).toMatchObject({
    reason: 'UNAUTHENTICATED',
    message: expect.stringContaining('it gave out no such token') as string,
  });
});

test.skipIf(missing('openssl'))(
  'a pilot rejects a certificate of another authority, and the gateway does not start with a certificate for another name',
  async () => {
    using folder = temporaryFolder();
    const [tls, other] = [join(folder.path, 'tls'), join(folder.path, 'other')];
    for (const one of [tls, other]) initTls(one, ['localhost']);
    const { certificate, key } = readServerTls(tls);
    await using door = createTlsServer({ cert: certificate, key, ALPNProtocols: ['h2'] }).listen(0, '127.0.0.1');
    await once(door, 'listening');
    const landed = await landingOf(`127.0.0.1:${(door.address() as AddressInfo).port}`, other);
    expect(landed).toMatchObject({
      exitCode: UNREACHABLE_EXITS.noTrust,
      message: expect.stringContaining('certificate') as string,
    });
    await expect(startCluster(() => warn('not reached'), { tls, reach: 'login1:50052' })).rejects.toThrow(
      /reach must be a name in the gateway's certificate \(.*localhost.*\), got login1: change reach/,
    );
  },
);

test('a job is given up once five of its pilots have ended', { timeout: 120_000 }, async () => {
  const terminate: (() => void)[] = [];
  await using cluster = await startCluster(() => ({ signal }) => {
    for (const end of terminate) end();
    return untilStopped(signal);
  });
  terminate.push(() => {
    for (const pilot of cluster.pilots.values()) pilot.terminate();
  });
  const events = await collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  expect(attempts(events)).toHaveLength(5);
  expect(finished(events).error?.reason).toBe('DEVICE_UNAVAILABLE');
});

test('a refused request ends the job, because any other node would refuse it too', async () => {
  await using cluster = await startCluster(() => () => Promise.reject(new Error('not reached')), { refuse: true });
  const events = await collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  expect(attempts(events)).toEqual(['1: ']);
  expect(finished(events).error?.reason).toBe('INVALID_REQUEST');
});

test('a cancelled job also ends on its node', async () => {
  const began = Promise.withResolvers<void>();
  let stopped = false;
  await using cluster = await startCluster(() => async ({ signal }) => {
    began.resolve();
    signal.addEventListener('abort', () => (stopped = true));
    return untilStopped(signal);
  });
  const job = collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  await began.promise;
  const { jobs } = await cluster.client.listJobs({});
  await cluster.client.cancelJob({ name: jobs[0]!.name });
  expect(finished(await job).outcome).toBe(Outcome.CANCELLED);
  await until(() => stopped);
});

test('a cancelled job keeps the verdict that its node had already decided', async () => {
  const began = Promise.withResolvers<void>();
  await using cluster = await startCluster(() => async ({ signal, decide }) => {
    decide({ outcome: Outcome.WRONG_RESULT, summary: 'RACE: two threads', result: create(JobResultSchema) });
    began.resolve();
    return untilStopped(signal);
  });
  const job = collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
  await began.promise;
  const { jobs } = await cluster.client.listJobs({});
  await cluster.client.cancelJob({ name: jobs[0]!.name });
  const { outcome, summary } = finished(await job);
  expect([Outcome[outcome], summary]).toEqual([
    'WRONG_RESULT',
    'RACE: two threads; after that: Cancelled while it was running',
  ]);
});

test('bad input is refused at once, before a pilot is submitted', async () => {
  await using cluster = await startCluster(() => warn('never'));
  await expect(collect(cluster.client.start('verify', kernel('no_such_kernel')))).rejects.toThrow('no_such_kernel');
  const elsewhere = { ...kernel('flashcore_v6'), options: { deviceId: 'slurm:no' } };
  await expect(collect(cluster.client.start('verify', elsewhere))).rejects.toThrow('slurm:gpu');
  expect(cluster.pilots.size).toBe(0);
});

/** A job body that ends only when its signal is aborted. */
async function untilStopped(signal: AbortSignal): Promise<never> {
  await once(signal, 'abort');
  throw signal.reason;
}
