/** Jobs and pilots survive a kill of their gateway and a full disk. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as tick } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import {
  JobResultSchema,
  Outcome,
  RunExperimentRequestSchema,
  WarningSchema,
  type AssignedRun,
  type JobEvent,
} from '@flashcore/shared/contract';
import { PATIENT_MS, until } from '@flashcore/shared/testing';
import type { JobBody, JobContext } from '../jobs/job-context.ts';
import { openDatabase, openDatabaseToRead } from '../store/database.ts';
import { startChildGatewayIn } from '../testing/child-runner.ts';
import { acceptable } from '../testing/fake-planner.ts';
import { flyTestPilot } from '../testing/test-pilot.ts';
import { collect, finished, kernel, temporaryFolder } from '../testing/test-runner.ts';
import { attempts, isGapless, warnings } from '../testing/test-cluster.ts';

const PASSED = { outcome: Outcome.PASSED, summary: 'passed', result: create(JobResultSchema) };

/** A gateway that can be killed, with pilots in this process. */
async function startCluster(
  body: (attempt: number) => JobBody,
  { max = 1, environment = {} }: { max?: number; environment?: NodeJS.ProcessEnv } = {},
) {
  const folder = temporaryFolder();
  const file = join(folder.path, 'fleet.yaml');
  const submitted = join(folder.path, 'q');
  const address = `unix:${folder.path}/p`;
  writeFileSync(
    file,
    `
listen: ${address}
reach: ${address}
bundle: /opt/flashcore
builds: { at: pilots }
partitions:
  - { partition: gpu, device: NVIDIA L4, max: ${max} }
`,
  );
  mkdirSync(submitted);
  const start = () =>
    startChildGatewayIn(
      { ...process.env, ...environment },
      file,
      submitted,
      '--data',
      join(folder.path, 'data'),
      '--address',
      `unix:${folder.path}/s`,
    );
  let gateway = await start();
  const ended = new AbortController();
  const pilots = new Map<string, { end: () => void; landed: Promise<void> }>();
  let bodies = 0;
  // Starts submitted pilots, as Slurm does.
  const starter = setInterval(() => {
    for (const id of readdirSync(submitted)) {
      if (pilots.has(id)) continue;
      const own = new AbortController();
      const landed = flyTestPilot({
        gateway: address,
        token: readFileSync(join(submitted, id), 'utf8'),
        body: (job) => body((bodies += 1))(job),
        signal: AbortSignal.any([own.signal, ended.signal]),
      })
        .catch(() => undefined)
        .then(() => rmSync(join(submitted, id), { force: true }));
      pilots.set(id, { end: () => own.abort(), landed });
    }
  }, 20);
  const client = await RunnerClient.connect({ address: gateway.address, timeoutMs: PATIENT_MS });
  return {
    client,
    pilots,
    stderr: () => gateway.stderr,
    kill: (signal: NodeJS.Signals = 'SIGKILL') => gateway.end(signal),
    restart: async () => {
      gateway = await start();
    },
    database: join(folder.path, 'data', 'flashcore.db'),
    async [Symbol.asyncDispose]() {
      client.close();
      await gateway[Symbol.asyncDispose]();
      clearInterval(starter);
      ended.abort();
      await Promise.all([...pilots.values()].map(({ landed }) => landed));
      folder[Symbol.dispose]();
    },
  };
}

/** Starts a job and waits for its first warning. */
async function runsOn(
  { client }: { client: RunnerClient },
  method: 'verify' | 'runExperiment' = 'verify',
): Promise<{ seen: JobEvent[]; job: Promise<void> }> {
  const seen: JobEvent[] = [];
  const job = (async () => {
    for await (const event of client.start(method, kernel('fa_v1_baseline'))) seen.push(event);
  })();
  await until(() => warnings(seen).length === 1);
  return { seen, job };
}

const warn = ({ emit }: JobContext, message: string): void =>
  emit({ case: 'warning', value: create(WarningSchema, { message }) });

test.each(['SIGKILL', 'SIGTERM'] as const)(
  "a running job and a waiting job survive the gateway's end by %s, and each client sees one stream",
  { timeout: 120_000 },
  async (signal) => {
    const away = Promise.withResolvers<void>();
    const told = Promise.withResolvers<void>();
    await using cluster = await startCluster((attempt) => async (job) => {
      if (attempt > 1) return PASSED;
      warn(job, 'before');
      await away.promise;
      for (let index = 0; index < 20; index += 1) warn(job, `while it was away ${index}`);
      told.resolve();
      return PASSED;
    });
    const { seen, job: first } = await runsOn(cluster);
    const second = collect(cluster.client.start('verify', kernel('flashcore_v6')));
    await until(async () => (await cluster.client.listJobs({})).jobs.length === 2);
    await cluster.kill(signal);
    away.resolve();
    await told.promise;
    await cluster.restart();
    await first;
    expect(isGapless(seen)).toBe(true);
    expect(attempts(seen)).toEqual(['1: ']);
    expect(warnings(seen)).toEqual(['before', ...Array.from({ length: 20 }, (_, n) => `while it was away ${n}`)]);
    expect(finished(seen).outcome).toBe(Outcome.PASSED);
    const waited = await second;
    expect([isGapless(waited), attempts(waited), finished(waited).outcome]).toEqual([true, ['1: '], Outcome.PASSED]);
    expect(cluster.pilots.size).toBe(1);
    const database = openDatabaseToRead(cluster.database);
    const count = (table: string): unknown => database.prepare(`SELECT COUNT(*) AS rows FROM ${table}`).get();
    expect([count('leases'), count('kept_requests')]).toEqual([{ rows: 0 }, { rows: 0 }]);
    database.close();
  },
);

test(
  'the job of a pilot that ended while the gateway was away goes to another pilot, with the reason',
  { timeout: 120_000 },
  async () => {
    await using cluster = await startCluster((attempt) => async (job) => {
      warn(job, `attempt ${attempt}`);
      if (attempt === 1) await new Promise((_, reject) => job.signal.addEventListener('abort', reject));
      return PASSED;
    });
    const { seen, job } = await runsOn(cluster);
    await cluster.kill();
    for (const { end, landed } of cluster.pilots.values()) {
      end();
      await landed;
    }
    await cluster.restart();
    await job;
    expect([isGapless(seen), warnings(seen), finished(seen).outcome]).toEqual([
      true,
      ['attempt 1', 'attempt 2'],
      Outcome.PASSED,
    ]);
    expect(attempts(seen)).toEqual(['1: ', '2: its pilot has ended']);
  },
);

/** Changes the gateway's decisions in the only stored request, which must be an experiment's. */
function changeKept(path: string, change: (assigned: AssignedRun) => void): void {
  const database = openDatabase(path);
  const { request } = database.prepare('SELECT request FROM kept_requests').get() as { request: Uint8Array };
  const kept = fromBinary(RunExperimentRequestSchema, request);
  change(kept.assigned!);
  database.prepare('UPDATE kept_requests SET request = ?').run(toBinary(RunExperimentRequestSchema, kept));
  database.close();
}

test.each<[string, (assigned: AssignedRun) => void, string]>([
  ['carries', ({ facts }) => (facts!.gatesSource = 'as it was planned'), 'as it was planned'],
  // A request stored by an older gateway, which planned each run again after a restart.
  ['does not carry', (assigned) => delete assigned.facts, "kernels/gates.yaml, and fa_v1_baseline's own"],
])(
  "after a restart a result has the gateway's own facts; the stored request %s them",
  { timeout: 120_000 },
  async (_, change, gatesSource) => {
    const end = Promise.withResolvers<void>();
    const { acceptability, ranking, variants, plan } = acceptable(5);
    const result = create(JobResultSchema, {
      acceptability,
      ranking,
      variants,
      plan: { ...plan!, name: 'final' },
      lineage: ['flashcore_v6'],
      provenance: { runnerBuildId: 'test', problem: 'row_norm', dtype: 'bf16', gatesSource: 'mine' },
    });
    await using cluster = await startCluster(() => async (job) => {
      warn(job, 'runs');
      await end.promise;
      return { ...PASSED, result };
    });
    const { seen, job } = await runsOn(cluster, 'runExperiment');
    await cluster.kill();
    changeKept(cluster.database, change);
    end.resolve();
    await cluster.restart();
    await job;
    expect([attempts(seen), finished(seen).outcome]).toEqual([['1: '], Outcome.PASSED]);
    expect(finished(seen).result).toMatchObject({
      lineage: ['fa_v1_baseline'],
      plan: { name: 'merge' },
      provenance: { plan: 'merge', problem: 'attention', dtype: 'fp16', gatesSource },
      ranking: { ranked: true },
    });
  },
);

test(
  'a cancelled job stays cancelled after a restart, and its pilot takes the next job',
  { timeout: 120_000 },
  async () => {
    await using cluster = await startCluster((attempt) => async (job) => {
      warn(job, 'runs');
      if (attempt === 1) await new Promise((_, reject) => job.signal.addEventListener('abort', reject));
      return PASSED;
    });
    const { seen, job } = await runsOn(cluster);
    await cluster.client.cancelJob({ name: seen[0]!.job });
    await job;
    await cluster.kill();
    await cluster.restart();
    expect(await collect(cluster.client.watch(seen[0]!.job))).toEqual(seen);
    expect(finished(seen).outcome).toBe(Outcome.CANCELLED);
    const next = await collect(cluster.client.start('verify', kernel('flashcore_v6')));
    expect([attempts(next), cluster.pilots.size]).toEqual([['1: '], 1]);
  },
);

test.each([150, 260, 400])(
  "if the disk is full for some seconds from the store's call %i on, accepted jobs wait and then pass, with all their events",
  { timeout: 120_000 },
  async (call) => {
    const accepted = Promise.withResolvers<void>();
    const texts = Array.from({ length: 40 }, (_, index) => `event ${index}`);
    const body: JobBody = async (job) => {
      await accepted.promise;
      for (const text of texts) {
        warn(job, text);
        await tick();
      }
      return PASSED;
    };
    await using cluster = await startCluster(() => body, {
      max: 3,
      environment: { FLASHCORE_STORE_FAULT: `ENOSPC ${call} 3000`, FLASHCORE_LOG_LEVEL: 'warn' },
    });
    const jobs = Array.from({ length: 6 }, () => collect(cluster.client.start('verify', kernel('fa_v1_baseline'))));
    await until(async () => (await cluster.client.listJobs({})).jobs.length === 6);
    accepted.resolve();
    for (const events of await Promise.all(jobs))
      expect([finished(events).outcome, isGapless(events), warnings(events), attempts(events)]).toEqual([
        Outcome.PASSED,
        true,
        texts,
        ['1: '],
      ]);
    expect(cluster.stderr()).toContain('only reading: the store takes no writes');
  },
);

test(
  'a job that is cancelled while the disk is full ends once the cancellation can be stored, and its pilot takes the next job',
  { timeout: 120_000 },
  async () => {
    let bodies = 0;
    await using cluster = await startCluster(
      () => {
        bodies += 1;
        const first = bodies === 1;
        return async (job) => {
          for (let index = 0; first && !job.signal.aborted; index += 1) {
            warn(job, `event ${index}`);
            await tick();
          }
          return PASSED;
        };
      },
      { environment: { FLASHCORE_STORE_FAULT: 'ENOSPC 100 3000', FLASHCORE_LOG_LEVEL: 'warn' } },
    );
    const job = collect(cluster.client.start('verify', kernel('fa_v1_baseline')));
    await until(() => cluster.stderr().includes('the job waits until the store takes writes'));
    await cluster.client.cancelJob({ name: (await cluster.client.listJobs({})).jobs[0]!.name });
    const events = await job;
    expect([finished(events).outcome, isGapless(events), bodies]).toEqual([Outcome.CANCELLED, true, 1]);
    const next = await collect(cluster.client.start('verify', kernel('flashcore_v6')));
    expect([finished(next).outcome, bodies]).toEqual([Outcome.PASSED, 2]);
  },
);
