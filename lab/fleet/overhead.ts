/**
 * `npx nx fleet-overhead lab`: measures the cost of a gateway, over gRPC and with a pilot: the seconds from a request
 * to the start of its job, submissions per second, and the memory of 10,000 waiting jobs and of 1,000 idle watchers.
 * Writes lab/results/fleet-…/overhead.json.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import {
  createLogger,
  FAKE_DEVICE,
  fakePlanner,
  firstEvent,
  flyPilot,
  startTestRunner,
  temporaryFolder,
  kernel,
  type JobBody,
  type PlannerOptions,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { DeviceSchema, JobResultSchema, Outcome, WarningSchema } from '@flashcore/shared/contract';
import { repositoryRoot } from '@flashcore/test/support/repository-root';
import { OVERHEAD, type Overhead } from './page.ts';
import type { FromGateway, ToGateway } from './gateway-process.ts';

const STARTS = 200;
const QUEUED = 10_000;
/** How many requests are in flight at the same time, over all connections. */
const AT_ONCE = 32;
const CONNECTIONS = 4;
const WATCHERS = 1_000;
const WATCHERS_PER_CONNECTION = 50;
const IDLE_SECONDS = 10;
const LONG_MS = 3_600_000;
const KERNEL = kernel('fa_v1_baseline');

const stack = new AsyncDisposableStack();
const gateway = await startGateway();
note('a gateway serves');
try {
  const overhead = await measure();
  const path = join(repositoryRoot(), OVERHEAD);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(overhead, null, 2)}\n`);
  process.stdout.write(`${JSON.stringify(overhead, null, 2)}\n`);
} finally {
  gateway.send({ type: 'end' });
}
process.exit(0);

async function measure(): Promise<Overhead> {
  const client = await connect();
  const starts: number[] = [];
  const firstWords: number[] = [];
  // The first job has to wait for the pilot.
  for (let index = 0; index <= STARTS; index += 1) {
    const since = performance.now();
    for await (const { payload } of client.start('verify', KERNEL)) {
      if (index === 0) continue;
      if (payload.case === 'attemptStarted') starts.push(performance.now() - since);
      if (payload.case === 'warning') firstWords.push(performance.now() - since);
    }
  }
  note(`${STARTS} jobs started`);
  const before = await gateway.use();
  const holding = await firstEvent(client.start('verify', KERNEL));
  const since = performance.now();
  await submitAll();
  const submitSeconds = (performance.now() - since) / 1000;
  const queued = await gateway.use();
  note(`${QUEUED} jobs wait`);
  const watchers = await watchAll(holding.job);
  note(`${watchers} watchers`);
  const idleFrom = await gateway.use();
  await sleep(IDLE_SECONDS * 1000);
  const idleTo = await gateway.use();
  return {
    machine: `${cpus().length} processors (${cpus()[0]?.model.trim() ?? 'unknown'}), Node ${process.versions.node}`,
    startMs: quantiles(starts),
    firstEventMs: quantiles(firstWords),
    queued: QUEUED,
    submitsPerSecond: QUEUED / submitSeconds,
    submitCpuMs: (queued.cpuMs - before.cpuMs) / QUEUED,
    rssBeforeMib: before.rssMib,
    rssQueuedMib: queued.rssMib,
    watchers,
    rssWatchedMib: idleTo.rssMib,
    idleCpuPercent: (idleTo.cpuMs - idleFrom.cpuMs) / (10 * IDLE_SECONDS),
  };
}

function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

function quantiles(values: readonly number[]): { p50: number; p90: number } {
  const sorted = values.toSorted((a, b) => a - b);
  return { p50: sorted[Math.floor(0.5 * sorted.length)]!, p90: sorted[Math.floor(0.9 * sorted.length)]! };
}

async function submitAll(): Promise<void> {
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, connect));
  let left = QUEUED;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, index) => {
      while ((left -= 1) >= 0) await firstEvent(clients[index % CONNECTIONS]!.start('verify', KERNEL));
    }),
  );
}

/** Opens streams of a job that sends no events. Returns how many are open. */
async function watchAll(job: string): Promise<number> {
  let open = 0;
  for (let from = 0; from < WATCHERS; from += WATCHERS_PER_CONNECTION) {
    const client = await connect();
    for (let index = 0; index < WATCHERS_PER_CONNECTION; index += 1) {
      const events = client.watch(job, { afterSequence: 0 })[Symbol.asyncIterator]();
      await events.next();
      open += 1;
      // Each stream stays open until the gateway ends.
      void events.next().catch(() => undefined);
    }
  }
  return open;
}

async function connect(): Promise<RunnerClient> {
  return RunnerClient.connect({ address: gateway.address });
}

async function startGateway() {
  const folder = stack.use(temporaryFolder()).path;
  const listen = `unix:${join(folder, 'p')}`;
  const child = fork(join(import.meta.dirname, 'gateway-process.ts'), [listen], { stdio: 'inherit' });
  child.on('message', (message: FromGateway) => {
    if (message.type === 'pilot') void fly(listen, message.token);
  });
  const { address } = await heard(child, 'serves');
  return {
    address,
    send: (message: ToGateway) => void child.send(message),
    use: async () => {
      child.send({ type: 'use' } satisfies ToGateway);
      return heard(child, 'use');
    },
  };
}

async function heard<Type extends FromGateway['type']>(
  child: ChildProcess,
  type: Type,
): Promise<Extract<FromGateway, { type: Type }>> {
  for (;;) {
    const [message] = (await once(child, 'message')) as [FromGateway];
    if (message.type === type) return message as Extract<FromGateway, { type: Type }>;
  }
}

/** Runs a pilot whose jobs send one event and end. The job that follows the timed jobs keeps running. */
async function fly(gateway: string, token: string): Promise<void> {
  let jobs = 0;
  const tree: JobBody = ({ emit, signal }) => {
    jobs += 1;
    emit({ case: 'warning', value: create(WarningSchema, { message: 'it runs' }) });
    const end = { outcome: Outcome.PASSED, summary: 'passed', result: create(JobResultSchema) };
    return jobs > STARTS + 1 ? sleep(LONG_MS, end, { signal }) : Promise.resolve(end);
  };
  let parts: PlannerOptions | undefined;
  const own = stack.use(
    await startTestRunner({
      createPlanner: (options) => {
        parts = options;
        return fakePlanner({ bodies: { tree } });
      },
    }),
  );
  const device = create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' });
  await flyPilot(
    { address: own.runner.address, device, tools: [], owners: new Map(), ...parts! },
    {
      gateway,
      security: undefined,
      token,
      endsAtMs: Infinity,
      logger: createLogger('silent'),
      signal: new AbortController().signal,
    },
  );
}
