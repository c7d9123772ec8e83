import { create, fromBinary, toJsonString, type DescMessage } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  DeviceState,
  JobState,
  Outcome,
  JobEventSchema,
  JobResultSchema,
  KernelRunnerService,
  LogLineSchema,
  WarningSchema,
  type Job,
  type JobEvent,
} from '@flashcore/shared/contract';
import { createLogger } from '../log.ts';
import { openDatabase, type Database } from '../store/database.ts';
import { HistoryStore } from '../store/history.ts';
import { JobTable } from '../store/job-table.ts';
import { fakePlanner, type FakeOptions } from '../testing/fake-planner.ts';
import { kernel } from '../testing/test-runner.ts';
import type { JobBody, JobContext, JobMethod, JobOutcome, JobRequests } from './job-context.ts';
import { STOP_GRACE_MS } from './job-run.ts';
import { Jobs, type JobsOptions, type StartOptions } from './jobs.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

type FixtureOptions = FakeOptions & Pick<JobsOptions, 'cleanText' | 'mayStart'> & { maxQueued?: number };

/** Jobs over an in-memory database, on a clock that the test moves. */
function fixture(options: FixtureOptions = {}) {
  const database = openDatabase(':memory:');
  const history = new HistoryStore(database);
  return { database, history, ...jobsOn(database, history, options) };
}

function jobsOn(
  database: Database,
  history: HistoryStore,
  { cleanText, mayStart, maxQueued = 8, ...options }: FixtureOptions = {},
) {
  const planner = fakePlanner(options);
  const jobs = new Jobs({
    database,
    history,
    devices: () => planner.devices(),
    bodyAgain: (kept, queued) => planner.bodyAgain!(kept, queued),
    maxQueued,
    ...(mayStart && { mayStart }),
    logger: createLogger('silent'),
    ...(cleanText && { cleanText }),
  });
  const start = (
    kernelId: string,
    { method = 'build', ...limits }: Partial<StartOptions> & { method?: JobMethod } = {},
  ): Job =>
    jobs.start({
      requestId: '',
      requestDigest: '',
      owner: 'ada',
      labels: {},
      maxJobsOfOwner: undefined,
      maxQueueSeconds: 3600,
      maxRunSeconds: 3600,
      ...limits,
      plan: () => planner.planJob(method, requestOf(method, kernelId), () => 0),
    });
  return { jobs, start };
}

const requestOf = (method: JobMethod, kernelId: string): JobRequests[JobMethod] =>
  create<DescMessage>(KernelRunnerService.method[method].input, kernel(kernelId)) as never;

async function events(jobs: Jobs, name: string): Promise<JobEvent[]> {
  const all: JobEvent[] = [];
  for await (const batch of jobs.watch(name, { afterSequence: 0, signal: new AbortController().signal }))
    all.push(...batch.map((event) => fromBinary(JobEventSchema, event)));
  return all;
}

/** A body that settles only when the test says so. */
function stubborn() {
  const { promise, resolve } = Promise.withResolvers<never>();
  return { bodies: { stubborn: () => promise }, letGo: () => resolve(undefined as never) };
}

/** Compilations that end only when the test says so, in the order in which they began. */
function compilations() {
  const begun: { kernelId: string; signal: AbortSignal; end: PromiseWithResolvers<void> }[] = [];
  const compileAhead = (kernelId: string, signal: AbortSignal): Promise<void> => {
    const end = Promise.withResolvers<void>();
    begun.push({ kernelId, signal, end });
    return end.promise;
  };
  return { begun, compileAhead, names: () => begun.map(({ kernelId }) => kernelId) };
}

test('while a job has the device, only the next job in the queue is compiled', async () => {
  const { begun, compileAhead, names } = compilations();
  const { bodies, letGo } = stubborn();
  const { jobs, start } = fixture({ bodies, compileAhead });
  start('stubborn');
  const [next] = [start('ok'), start('sleep_1')];
  await settle();
  expect(names()).toEqual(['ok']);
  // The failed compilation is not reported here: the job's own build reports it.
  begun[0]!.end.reject(new Error('does not compile'));
  await settle();
  expect(names()).toEqual(['ok']);
  letGo();
  await settle();
  expect(jobs.get(next.name).job.outcome).toBe(Outcome.PASSED);
  // `sleep_1`, submitted last, moved to the head of the queue as soon as `ok` had the device.
  expect(names()).toEqual(['ok', 'sleep_1']);
});

test("a cancelled job's compilation is stopped, and the next job's begins", async () => {
  const { begun, compileAhead, names } = compilations();
  const { jobs, start } = fixture({ compileAhead });
  start('hang');
  const [cancelled] = [start('ok_1'), start('ok_2')];
  await settle();
  jobs.cancel(cancelled.name);
  expect(begun[0]!.signal.aborted).toBe(true);
  begun[0]!.end.resolve();
  await settle();
  expect(names()).toEqual(['ok_1', 'ok_2']);
  expect(begun[1]!.signal.aborted).toBe(false);
  jobs.stopAll();
  expect(begun[1]!.signal.aborted).toBe(true);
});

test('a job begins even if its early compilation has not ended; the compilation of the next job then waits', async () => {
  const { begun, compileAhead, names } = compilations();
  const { bodies, letGo } = stubborn();
  const { jobs, start } = fixture({ bodies, compileAhead });
  start('stubborn');
  const hang = start('hang');
  start('ok');
  await settle();
  letGo();
  await settle();
  expect([jobs.get(hang.name).job.state, names()]).toEqual([JobState.RUNNING, ['hang']]);
  begun[0]!.end.resolve();
  await settle();
  expect(names()).toEqual(['hang', 'ok']);
  jobs.stopAll();
});

test('a cancelled job names the client that cancelled it, if the runner tells clients apart', async () => {
  const { jobs, start } = fixture({});
  const [first, second] = [start('hang'), start('ok')];
  await settle();
  jobs.cancel(second.name, 'ada');
  jobs.cancel(first.name);
  await settle();
  expect([first, second].map(({ name }) => jobs.get(name).job.summary)).toEqual([
    'Cancelled while it was running',
    'Cancelled by ada while it was queued',
  ]);
});

test('a job whose body ignores the cancellation ends after the grace period; its device takes no job until the body has settled', async () => {
  const { bodies, letGo } = stubborn();
  const { jobs, start } = fixture({ bodies });
  const job = start('stubborn');
  const waiting = start('ok');
  await settle();
  jobs.cancel(job.name);
  await vi.advanceTimersByTimeAsync(STOP_GRACE_MS - 1);
  expect(jobs.get(job.name).job.state).toBe(JobState.RUNNING);
  await vi.advanceTimersByTimeAsync(1);
  expect(jobs.get(job.name).job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.CANCELLED });
  expect(jobs.devices()[0]).toMatchObject({
    state: DeviceState.QUARANTINED,
    stateReason: `${job.name} was stopped and did not let go of the device`,
  });
  expect(jobs.get(waiting.name).job.state).toBe(JobState.QUEUED);
  expect(() => start('ok')).toThrow(expect.objectContaining({ reason: 'DEVICE_UNAVAILABLE' }) as Error);
  letGo();
  await settle();
  expect(jobs.get(waiting.name).job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.PASSED });
  expect(jobs.devices()[0]?.state).toBe(DeviceState.READY);
});

test('partial results of a body that was stopped or threw are in the result and in the history', async () => {
  const found = create(JobResultSchema, {
    provenance: { device: { name: 'Fake GPU' } },
    variants: [{ label: 'default', verify: { passedCases: 1, cases: [{}] } }],
  });
  const { history, jobs, start } = fixture({
    bodies: {
      stopped: ({ keep, signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            keep(found);
            reject(signal.reason as Error);
          }),
        ),
      broken: ({ keep }) => {
        keep(found);
        return Promise.reject(new Error('a worker could not'));
      },
    },
  });
  const started = [start('stopped', { method: 'runExperiment' }), start('broken', { method: 'runExperiment' })];
  await settle();
  jobs.cancel(started[0]!.name);
  await settle();
  expect(
    started
      .map(({ name }) => jobs.get(name))
      .map(({ job, result }) => [Outcome[job.outcome], result?.variants[0]?.verify?.passedCases]),
  ).toEqual([
    ['CANCELLED', 1],
    ['ERROR', 1],
  ]);
  expect(
    history.list({ limit: 9 }).map(({ summary: { deviceName, passedCases } }) => [deviceName, passedCases]),
  ).toEqual([
    ['Fake GPU', 1],
    ['Fake GPU', 1],
  ]);
});

test('a job whose outcome was decided before it was stopped keeps the outcome, with all findings', async () => {
  const found = (labels: string[]) => create(JobResultSchema, { variants: labels.map((label) => ({ label })) });
  const race = { outcome: Outcome.FAILED, summary: 'RACE: two threads', result: found(['first']) };
  const { bodies: hung, letGo } = stubborn();
  const { jobs, start } = fixture({
    bodies: {
      settles: ({ decide, keep, signal }) =>
        new Promise((_, reject) => {
          decide(race);
          signal.addEventListener('abort', () => {
            keep(found(['first', 'fallback']));
            reject(signal.reason as Error);
          });
        }),
      hangs: ({ decide }) => {
        decide(race);
        return hung.stubborn();
      },
    },
  });
  const end = async (kernelId: string, limits: Partial<StartOptions>) => {
    const { name } = start(kernelId, { method: 'runExperiment', ...limits });
    await settle();
    if (limits.maxRunSeconds === undefined) jobs.cancel(name, 'ada');
    await vi.advanceTimersByTimeAsync(STOP_GRACE_MS + 1_000);
    const { job, result } = jobs.get(name);
    return [Outcome[job.outcome], job.summary, result?.variants.map(({ label }) => label)];
  };
  const cancelled = 'RACE: two threads; after that: Cancelled by ada while it was running';
  expect(await end('settles', {})).toEqual(['FAILED', cancelled, ['first', 'fallback']]);
  expect(await end('settles', { maxRunSeconds: 1 })).toEqual([
    'FAILED',
    "RACE: two threads; after that: Stopped after 1 s of running, the job's limit (max_run_seconds)",
    ['first', 'fallback'],
  ]);
  expect(await end('hangs', {})).toEqual(['FAILED', cancelled, ['first']]);
  letGo();
  await settle();
});

test('after a crash, an experiment that ran is ended and appears in the history, like a stopped one', async () => {
  const { database, history, jobs, start } = fixture();
  const running = start('hang', { method: 'runExperiment' });
  await settle();
  expect(jobs.get(running.name).job.state).toBe(JobState.RUNNING);
  // A second runner on the same database, as if the first was killed.
  const again = jobsOn(database, history).jobs;
  expect(Outcome[again.get(running.name).job.outcome]).toBe('INTERRUPTED');
  const list = history.list({ limit: 9 }).map(({ jobId, summary }) => [again.byId(jobId).name, summary.deviceName]);
  expect(list).toEqual([[running.name, 'Fake GPU']]);
});

test('jobs that waited at a crash stay queued in their order, and each runs once, when jobs may start', async () => {
  const { database, history, jobs, start } = fixture();
  const running = start('hang');
  const waiting = ['ok', 'error', 'ok'].map((kernelId) => start(kernelId, { maxQueueSeconds: 2 }));
  await settle();
  // The first runner stores nothing more, as if it was killed. Without a runner no device can come free, so that time
  // does not count for their limit.
  jobs.leave();
  await vi.advanceTimersByTimeAsync(3_000);
  let mayStart = false;
  const again = jobsOn(database, history, { mayStart: () => mayStart }).jobs;
  expect(Outcome[again.get(running.name).job.outcome]).toBe('INTERRUPTED');
  await settle();
  expect(waiting.map(({ name }) => [again.get(name).job.state, again.get(name).job.queuePosition])).toEqual([
    [JobState.QUEUED, 0],
    [JobState.QUEUED, 1],
    [JobState.QUEUED, 2],
  ]);
  mayStart = true;
  again.startWaiting();
  await vi.waitFor(() => expect(again.active).toBe(0));
  const logs = await Promise.all(waiting.map(({ name }) => events(again, name)));
  expect(logs.map((log) => log.map(({ payload }) => payload.case))).toEqual(
    waiting.map(() => ['created', 'started', 'finished']),
  );
  expect(waiting.map(({ name }) => Outcome[again.get(name).job.outcome])).toEqual(['PASSED', 'ERROR', 'PASSED']);
});

test("time between a runner's crash and its restart is not charged as device time to its job", async () => {
  const { database, history, start } = fixture();
  const left = start('hang', { owner: 'ada' });
  await settle();
  vi.setSystemTime(Date.now() + 20 * 3_600_000);
  const after = jobsOn(database, history);
  const { startTime, endTime } = after.jobs.get(left.name).job;
  expect(endTime).toEqual(startTime);
  const again = { owner: 'ada', maxDeviceSecondsOfOwner: 2 * 3600, maxRunSeconds: 3600 };
  expect(after.start('ok', again).owner).toBe('ada');
});

test('the queue limit and the run limit are separate: a job may wait long and then run long', async () => {
  const { jobs, start } = fixture({
    bodies: {
      long: ({ signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    },
  });
  const first = start('long', { maxRunSeconds: 100 });
  const second = start('long', { maxQueueSeconds: 200, maxRunSeconds: 300 });
  const third = start('long', { maxQueueSeconds: 150 });
  await settle();
  await vi.advanceTimersByTimeAsync(100_000);
  expect([first, second, third].map(({ name }) => jobs.get(name).job.state)).toEqual([
    JobState.ENDED,
    JobState.RUNNING,
    JobState.QUEUED,
  ]);
  await vi.advanceTimersByTimeAsync(50_000);
  expect(jobs.get(third.name).job).toMatchObject({ outcome: Outcome.ERROR });
  await vi.advanceTimersByTimeAsync(249_999);
  expect(jobs.get(second.name).job.state).toBe(JobState.RUNNING);
  await vi.advanceTimersByTimeAsync(1);
  expect(jobs.get(second.name).job.outcome).toBe(Outcome.TIMED_OUT);
});

test("clients take turns on a device, one job each; a client's jobs keep their order, and the positions told to clients follow it", async () => {
  const { jobs, start } = fixture();
  const order: string[] = [];
  const running = start('hang', { owner: 'ada' });
  await settle();
  const waiting = [
    ...['ada', 'ada', 'ada', 'bob'].map((owner) => start('hang', { owner })),
    ...['bob', 'eve'].map((owner) => start('hang', { owner })),
  ];
  const names = new Map(waiting.map(({ name }, index) => [name, `${'aaabbe'[index]}${index}`]));
  const queued = () =>
    waiting
      .map(({ name }) => jobs.get(name).job)
      .filter(({ state }) => state === JobState.QUEUED)
      .toSorted((a, b) => a.queuePosition - b.queuePosition)
      .map(({ name, queuePosition }) => `${queuePosition} ${names.get(name)}`);
  // ada has the device, so the other clients come first.
  expect(queued()).toEqual(['1 b3', '2 e5', '3 a0', '4 b4', '5 a1', '6 a2']);
  // Position given when each job was created: e is second although five jobs were already waiting.
  const told = await Promise.all(
    waiting.map(async ({ name }) => {
      const stream = jobs.watch(name, { afterSequence: 0, signal: new AbortController().signal });
      const { value } = (await stream.next()) as { value: Uint8Array[] };
      const { payload } = fromBinary(JobEventSchema, value[0]!);
      await stream.return(undefined);
      return payload.case === 'created' ? payload.value.job?.queuePosition : undefined;
    }),
  );
  expect(told).toEqual([1, 2, 3, 1, 3, 2]);
  for (let current: Job | undefined = running; current;) {
    jobs.cancel(current.name);
    await settle();
    current = waiting.find(({ name }) => jobs.get(name).job.state === JobState.RUNNING);
    if (current) order.push(names.get(current.name)!);
  }
  expect(order).toEqual(['b3', 'e5', 'a0', 'b4', 'a1', 'a2']);
});

/** Runs jobs of the given seconds by client, one after another, and returns their owners in order. */
async function share(
  { jobs, start }: ReturnType<typeof fixture>,
  clients: Record<string, { seconds: number; weight?: number }>,
): Promise<string> {
  const runs = Object.entries(clients).flatMap(([owner, { seconds, weight }]) =>
    Array.from({ length: 12 }, () => ({ owner, seconds, ...start('hang', { owner, ...(weight && { weight }) }) })),
  );
  let order = '';
  for (let turn = 0; turn < 10; turn += 1) {
    await settle();
    const running = runs.find(({ name }) => jobs.get(name).job.state === JobState.RUNNING)!;
    order += running.owner[0];
    vi.advanceTimersByTime(running.seconds * 1000);
    jobs.cancel(running.name);
  }
  for (const { name } of runs) jobs.cancel(name);
  return order;
}

test('clients share a device by time used: short jobs get more turns than long ones', async () => {
  expect(await share(fixture({ maxQueued: 64 }), { long: { seconds: 59 }, short: { seconds: 19 } })).toBe(
    'lssslssslss'.slice(0, 10),
  );
});

test("a client's weight is its priority, and no client is starved", async () => {
  const order = await share(fixture({ maxQueued: 64 }), { user: { seconds: 9 }, boss: { seconds: 9, weight: 4 } });
  expect([...order].filter((who) => who === 'b')).toHaveLength(8);
});

test('old use of the device no longer affects the order of clients', async () => {
  const { jobs, start } = fixture();
  const before = start('hang', { owner: 'ada' });
  await settle();
  vi.advanceTimersByTime(600_000);
  jobs.cancel(before.name);
  await settle();
  vi.advanceTimersByTime(6 * 3_600_000);
  const [first, ada, bob] = ['eve', 'ada', 'bob'].map((owner) => start('hang', { owner }));
  await settle();
  expect([ada, bob].map((job) => jobs.get(job!.name).job.queuePosition)).toEqual([1, 2]);
  for (const job of [first, ada, bob]) jobs.cancel(job!.name);
});

test('a body that takes its device itself is charged only for the time that it has the device', async () => {
  const takes: JobBody = ({ hasDevice }) => {
    vi.advanceTimersByTime(100_000);
    hasDevice(true);
    vi.advanceTimersByTime(2_000);
    hasDevice(false);
    return Promise.resolve({ outcome: Outcome.PASSED, summary: '', result: create(JobResultSchema) });
  };
  const { start, database } = fixture({ bodies: { takes }, takesDevice: true });
  start('takes');
  await settle();
  expect(new JobTable(database).deviceSeconds('ada', 0)).toBe(2);
});

test('a job whose body runs without a device is shown as waiting; with a device, as running', async () => {
  let take: () => void = () => undefined;
  const takes: JobBody = ({ hasDevice }) => {
    take = () => hasDevice(true);
    return new Promise<never>(() => undefined);
  };
  const { jobs, start } = fixture({ bodies: { takes }, takesDevice: true });
  const { deviceId } = start('takes');
  await settle();
  const load = () => jobs.clientsOf(deviceId).map(({ client, waiting, running }) => ({ client, waiting, running }));
  expect(load()).toEqual([{ client: 'ada', waiting: 1, running: 0 }]);
  take();
  expect(load()).toEqual([{ client: 'ada', waiting: 0, running: 1 }]);
});

test("a job that the runner's end interrupted is queued again, once, if its request is repeated as resumable", async () => {
  const { database, history, jobs, start } = fixture();
  const request = { requestId: 'r', requestDigest: 'd' };
  const first = start('hang', request);
  await settle();
  expect(start('hang', { ...request, resumable: true }).name).toBe(first.name);
  const after = jobsOn(database, history);
  expect(after.start('hang', request)).toMatchObject({ name: first.name, outcome: Outcome.INTERRUPTED });
  // A refused request changes nothing: the id still names the interrupted job.
  expect(() => after.start('hang', { ...request, resumable: true, maxJobsOfOwner: 0 })).toThrow(
    /jobs waiting or running/,
  );
  expect(after.start('hang', request).name).toBe(first.name);
  const again = after.start('hang', { ...request, resumable: true });
  expect(again).toMatchObject({ state: JobState.QUEUED, requestId: 'r' });
  expect(after.start('hang', { ...request, resumable: true }).name).toBe(again.name);
  expect(after.jobs.get(first.name).job.outcome).toBe(Outcome.INTERRUPTED);
  jobs.stopAll();
});

test("setting the machine's clock back or ahead adds no device time, and no job ends before it began", async () => {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const body: JobBody = async () => {
    begin();
    await over;
    return { outcome: Outcome.PASSED, summary: '', result: create(JobResultSchema) };
  };
  const { jobs, start, database } = fixture({ bodies: { body } });
  const yearMs = 365 * 86_400_000;
  const job = start('body');
  await begun;
  await vi.advanceTimersByTimeAsync(2_000);
  vi.setSystemTime(Date.now() - yearMs);
  resolve();
  await settle();
  const ended = jobs.get(job.name).job;
  expect(ended).toMatchObject({ state: JobState.ENDED, outcome: Outcome.PASSED });
  expect(timestampMs(ended.endTime!)).toBe(timestampMs(ended.startTime!));
  vi.setSystemTime(Date.now() + 2 * yearMs);
  start('ok');
  await settle();
  const used = database.prepare('SELECT device_ms FROM jobs ORDER BY id').all();
  expect(used.map((row) => row['device_ms'])).toEqual([2_000, 0]);
});

test('the stored data of a job does not reveal where the runner keeps its files', async () => {
  const path = '/srv/flashcore';
  const { jobs, start } = fixture({
    bodies: {
      tells: ({ emit }: JobContext) => {
        emit({ case: 'logLine', value: create(LogLineSchema, { source: 'nvcc', text: `${path}/tmp/x.cu:1` }) });
        const result = create(JobResultSchema, { variants: [{ findings: [{ message: `no ${path}.` }] }] });
        return Promise.resolve({ outcome: Outcome.FAILED, summary: `in ${path}`, result });
      },
    },
    cleanText: (text) => text.replaceAll(path, '<data folder>'),
  });
  const { name } = start('tells');
  await settle();
  const stored = (await events(jobs, name)).map((event) => toJsonString(JobEventSchema, event)).join('\n');
  expect(stored).not.toContain(path);
  expect(stored.match(/<data folder>/g)).toHaveLength(3);
  expect(jobs.get(name).job.summary).toBe('in <data folder>');
});

test('a job that hits a full disk ends as DISK_FULL, without a gap in its log', async () => {
  const fill = { now: () => {} };
  const { database, jobs, start } = fixture({
    bodies: {
      writes: ({ emit, signal }) => {
        fill.now();
        for (let line = 0; line < 10_000 && !signal.aborted; line += 1) {
          emit({ case: 'warning', value: { $typeName: 'flashcore.runner.v1.Warning', message: 'x'.repeat(1000) } });
        }
        return Promise.reject(new Error('not reached'));
      },
    },
  });
  fill.now = () => limitPages(database, 20);
  const job = start('writes');
  await settle();
  limitPages(database, 100_000);
  await vi.advanceTimersByTimeAsync(1_000);
  const log = await events(jobs, job.name);
  expect(log.map(({ sequence }) => Number(sequence))).toEqual(log.map((_, index) => index + 1));
  expect(log.at(-1)?.payload).toMatchObject({
    case: 'finished',
    value: { outcome: Outcome.ERROR, error: { reason: 'DISK_FULL' } },
  });
});

test("a job's end that a full disk refused is stored once there is space", async () => {
  const summary = 'x'.repeat(100_000);
  const { database, jobs, start } = fixture({
    bodies: {
      found: () => {
        limitPages(database, 1);
        return Promise.resolve({ outcome: Outcome.PASSED, summary, result: create(JobResultSchema) });
      },
    },
  });
  const job = start('found');
  await settle();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(jobs.get(job.name).job).toMatchObject({ state: JobState.RUNNING, lastSequence: 2n });
  limitPages(database, 100_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(jobs.get(job.name).job).toMatchObject({
    state: JobState.ENDED,
    outcome: Outcome.PASSED,
    summary,
    lastSequence: 3n,
  });
});

test('a new job is refused with DISK_FULL on a full disk, and leaves no trace', () => {
  const { database, jobs, start } = fixture();
  limitPages(database, 1);
  expect(() => start(`ok_${'x'.repeat(100_000)}`)).toThrow(expect.objectContaining({ reason: 'DISK_FULL' }) as Error);
  expect(jobs.list({ limit: 100 })).toEqual([]);
  expect(jobs.active).toBe(0);
});

test('a job whose commit fails leaves no trace: the next job with its id runs to its own end', async () => {
  const { promise, resolve } = Promise.withResolvers<JobOutcome>();
  const { database, jobs, start } = fixture({ bodies: { long: () => promise } });
  start('long');
  await settle();
  failCommits(database);
  expect(() => start('ok', { maxQueueSeconds: 2 })).toThrow('FOREIGN KEY');
  expect(jobs.active).toBe(1);
  database.prepare('DROP TRIGGER fail_commits').run();
  const job = start('ok', { maxQueueSeconds: 60 });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(jobs.get(job.name).job).toMatchObject({ state: JobState.QUEUED, lastSequence: 1n });
  resolve({ outcome: Outcome.PASSED, summary: 'passed', result: create(JobResultSchema) });
  await settle();
  expect(jobs.get(job.name).job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.PASSED });
  expect([jobs.active, jobs.devices()[0]?.state]).toEqual([0, DeviceState.READY]);
});

test("a result that can't be stored ends the job as an internal error", async () => {
  const bodies = {
    wrong: () =>
      Promise.resolve({
        outcome: Outcome.PASSED,
        summary: '',
        result: { $typeName: 'flashcore.runner.v1.JobResult', deviceSeconds: 'x' } as never,
      }),
  };
  const { jobs, start } = fixture({ bodies });
  const job = start('wrong');
  await settle();
  expect(jobs.get(job.name).job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.ERROR });
});

test("the stored texts of a job can't steer a terminal: lines, warnings, findings, summary", async () => {
  const hostile = 'safe\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202etext';
  const bodies = {
    hostile: ({ emit }: JobContext) => {
      emit({ case: 'logLine', value: create(LogLineSchema, { source: hostile, text: hostile }) });
      emit({ case: 'warning', value: create(WarningSchema, { message: hostile }) });
      const result = create(JobResultSchema, {
        variants: [{ label: hostile, findings: [{ message: hostile, remedy: hostile }] }],
      });
      return Promise.resolve({ outcome: Outcome.FAILED, summary: hostile, result });
    },
  };
  const { jobs, start } = fixture({ bodies });
  const job = start('hostile');
  await settle();
  const stored = (await events(jobs, job.name)).map((event) => toJsonString(JobEventSchema, event)).join('\n');
  expect(stored.match(/safetext/g)).toHaveLength(7);
  expect(stored).not.toMatch(/\\u001b|ZXZpbA|\u202e/);
  expect(jobs.get(job.name).job.summary).toBe('safetext');
});

test('text and source of a log line are limited in length', async () => {
  const long = 'x'.repeat(100_000);
  const bodies = {
    long: ({ emit }: JobContext) => {
      emit({ case: 'logLine', value: create(LogLineSchema, { source: long, text: long }) });
      return Promise.resolve({ outcome: Outcome.PASSED, summary: '', result: create(JobResultSchema) });
    },
  };
  const { jobs, start } = fixture({ bodies });
  const job = start('long');
  await settle();
  const line = (await events(jobs, job.name)).find(({ payload }) => payload.case === 'logLine')?.payload.value;
  const { source, text } = line as { source: string; text: string };
  expect([source.length, text.length]).toEqual([4096, 4096]);
});

/** Lets ready promises and immediates run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

/**
 * Lets every statement of a new job succeed but its commit fail, like a disk that fills up at the wrong moment: SQLite
 * checks deferred references at the commit.
 */
function failCommits(database: Database): void {
  database.prepare('CREATE TABLE deferred (job_id INTEGER REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED)').run();
  database
    .prepare('CREATE TRIGGER fail_commits AFTER INSERT ON jobs BEGIN INSERT INTO deferred VALUES (-1); END')
    .run();
}

/** Lets the database grow by at most `more` pages, like a nearly full disk. */
function limitPages(database: Database, more: number): void {
  const pages = Number(Object.values(database.prepare('PRAGMA page_count').get()!)[0]);
  database.prepare(`PRAGMA max_page_count = ${pages + more}`).get();
}
