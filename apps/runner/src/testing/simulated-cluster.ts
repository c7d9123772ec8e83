import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { create, fromBinary, toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import {
  DeviceSchema,
  JobEventSchema,
  JobFinishedSchema,
  JobStartedSchema,
  RunExperimentRequestSchema,
  type JobEvent,
  type JobResult,
} from '@flashcore/shared/contract';
import { AssignmentSchema, RegisterSchema, type Assignment } from '@flashcore/shared/fleet';
import { findDataSheet } from '@flashcore/shared/kernels';
import { parseFleet } from '../fleet/fleet-file.ts';
import { createGateway } from '../fleet/gateway.ts';
import type { PilotLink, PilotSession } from '../fleet/pilot-link.ts';
import type { PilotPool } from '../fleet/pilot-pool.ts';
import type { Scheduler } from '../fleet/scheduler.ts';
import { Jobs } from '../jobs/jobs.ts';
import { KernelCatalog } from '../kernels.ts';
import { createLogger } from '../log.ts';
import { requestDigest } from '../rpc/start-job.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { BuildStore, SourceStore } from '../store/sources.ts';
import { openDatabase } from '../store/database.ts';
import { DecisionStore } from '../store/decisions.ts';
import { FleetTable } from '../store/fleet-table.ts';
import { HistoryStore } from '../store/history.ts';
import { MeasuredSteps } from '../store/measured-steps.ts';
import { REPOSITORY_ROOT, temporaryFolder } from './test-runner.ts';
import { VirtualClock } from './virtual-clock.ts';

/** A recorded experiment. */
export interface RecordedExperiment {
  kernelId: string;
  seconds: number;
  /** The job's events, except the last. */
  events: JobEvent['payload'][];
  outcome: number;
  summary: string;
  result: JobResult;
}

export interface SimulationOptions {
  nodes: number;
  gpusPerNode: number;
  /** The experiment of each job, in order of submission. */
  jobs: readonly RecordedExperiment[];
  /** Time from sbatch to the pilot's registration, if a GPU is free. */
  startSeconds: number;
  users: number;
}

export interface Simulation {
  /** Time from the first submission to the end of the last job. */
  makespanSeconds: number;
  /** GPU seconds used by jobs. */
  usedSeconds: number;
  /** GPU seconds held by pilots since the scheduler started them. */
  heldSeconds: number;
  /** CPU time of the gateway's thread per job: to accept it, and to run it to its end. */
  submitMs: number;
  runMs: number;
  /** Growth of resident memory from before the first job to when all jobs wait. */
  queuedMib: number;
  peakMib: number;
  /** Whether each outcome occurred as often as recorded. */
  asRecorded: boolean;
  requeues: number;
}

const DEVICE = 'NVIDIA H200';
/** Time of sbatch on a quiet Slurm controller. */
const SBATCH_MS = 20;
/** Round trip between two machines of one network. */
const NETWORK_MS = 1;
/** Interval of a pilot's heartbeats, as for real pilots. */
const BEAT_MS = 4_000;
const LONG_SECONDS = 7 * 24 * 3600;
const START_MS = Date.UTC(2026, 0, 1);

/**
 * Runs the real code of a gateway over a real store, with a cluster that replays recorded experiments, on a clock that
 * jumps. There is no network: messages are encoded and decoded, but not sent.
 */
export async function simulateCluster(options: SimulationOptions): Promise<Simulation> {
  using folder = temporaryFolder();
  const clock = new VirtualClock(START_MS);
  using gateway = startGateway(join(folder.path, 'data'), clock, options);
  const { cluster } = gateway;
  await gateway.begin();
  const memoryBefore = process.memoryUsage.rss();
  let [ended, submitted, submitMs, queuedMib, peak] = [0, 0, 0, 0, 0];
  const sample = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()));
  const submit = (): void => {
    const experiment = options.jobs[submitted];
    if (!experiment) {
      queuedMib = (process.memoryUsage.rss() - memoryBefore) / 1024 ** 2;
      return;
    }
    const before = clock.spentMs;
    const job = gateway.submit(experiment, `user${submitted % options.users}`);
    cluster.expect(job, experiment);
    submitted += 1;
    // The next client is served after this one.
    clock.after(0, () => {
      submitMs += clock.spentMs - before;
      submit();
    });
  };
  gateway.onEnded = (name) => {
    ended += 1;
    if (ended % 1000 === 0) sample();
    cluster.forget(name);
  };
  clock.after(0, submit);
  const startMs = clock.nowMs();
  await clock.run(() => ended === options.jobs.length);
  sample();
  const makespanSeconds = (clock.nowMs() - startMs) / 1000;
  const fleet = gateway.describe();
  return {
    makespanSeconds,
    usedSeconds: fleet.usedSeconds,
    heldSeconds: cluster.heldSeconds(),
    submitMs: submitMs / options.jobs.length,
    runMs: (clock.spentMs - submitMs) / options.jobs.length,
    queuedMib,
    peakMib: peak / 1024 ** 2,
    asRecorded: isDeepStrictEqual(gateway.outcomes(), countOutcomes(options.jobs)),
    requeues: fleet.requeues,
  };
}

function startGateway(dataDirectory: string, clock: VirtualClock, options: SimulationOptions) {
  const logger = createLogger('silent');
  const cluster = new SimulatedCluster(clock, options);
  const file = parseFleet(
    `{ listen: 127.0.0.1:1, reach: login:1, bundle: /opt/flashcore, builds: { at: pilots }, partitions: [{ partition: gpu, device: ${DEVICE}, max: ${options.nodes * options.gpusPerNode} }] }`,
    'fleet.yaml',
  );
  const stack = new DisposableStack();
  const sources = new SourceStore(join(dataDirectory, 'sources'));
  const database = stack.adopt(openDatabase(join(dataDirectory, 'flashcore.db')), (opened) => opened.close());
  const kernelsDirectory = join(REPOSITORY_ROOT, 'kernels');
  const planner = createGateway(
    {
      version: '0.0.0',
      buildId: 'simulated',
      repositoryRoot: REPOSITORY_ROOT,
      kernelsDirectory,
      dataDirectory,
      artifacts: new ArtifactStore(join(dataDirectory, 'artifacts')),
      sources,
      kernels: new KernelCatalog(kernelsDirectory, sources, new BuildStore(database)),
      decisions: new DecisionStore(database),
      steps: new MeasuredSteps(database),
      fleet: new FleetTable(database),
      logger,
    },
    { file, scheduler: () => cluster, tls: undefined, clock, openDoor: (pool) => cluster.openTo(pool) },
  );
  const gateway = {
    cluster,
    onEnded: (_name: string): void => undefined,
    begin: () => planner.begin!(jobs),
    submit: ({ kernelId }: RecordedExperiment, owner: string): string => {
      const request = decoded(
        RunExperimentRequestSchema,
        create(RunExperimentRequestSchema, { kernel: { source: { case: 'kernelId', value: kernelId } } }),
      );
      return jobs.start({
        owner,
        requestId: randomUUID(),
        requestDigest: requestDigest('runExperiment', RunExperimentRequestSchema, request),
        labels: {},
        maxJobsOfOwner: undefined,
        maxQueueSeconds: LONG_SECONDS,
        maxRunSeconds: LONG_SECONDS,
        plan: (load) => planner.planJob('runExperiment', request, load),
      }).name;
    },
    outcomes: () => new Map(jobs.statistics().outcomes.map(({ outcome, count }) => [outcome, count])),
    describe: () => {
      const { partitions, requeues } = planner.fleet!();
      return { usedSeconds: partitions[0]!.usedSeconds, requeues: Number(requeues) };
    },
    [Symbol.dispose]: () => stack.dispose(),
  };
  const jobs = new Jobs({
    database,
    history: new HistoryStore(database),
    devices: () => planner.devices(),
    capacity: (deviceId) => planner.capacity!(deviceId),
    keptBody: (kept, deviceId) => planner.keptBody!(kept, deviceId),
    maxQueued: Infinity,
    logger,
    nowMs: () => clock.nowMs(),
    onEnded: (name) => gateway.onEnded(name),
  });
  return gateway;
}

interface SimulatedPilot {
  id: string;
  token: string;
  sinceMs: number | undefined;
  session?: PilotSession;
}

/** Slurm and its nodes: a pilot starts when a GPU is free, and replays the recordings of its jobs. */
class SimulatedCluster implements Scheduler {
  readonly #clock: VirtualClock;
  readonly #options: SimulationOptions;
  readonly #pending: SimulatedPilot[] = [];
  readonly #present = new Map<string, SimulatedPilot>();
  readonly #expected = new Map<string, RecordedExperiment>();
  #pool: PilotPool | undefined;
  #free: number;
  #submitted = 0;
  #heldMs = 0;

  constructor(clock: VirtualClock, options: SimulationOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#free = options.nodes * options.gpusPerNode;
  }

  openTo(pool: PilotPool) {
    this.#pool = pool;
    return Promise.resolve({ close: () => Promise.resolve() });
  }

  /** Sets the experiment that a job will replay. */
  expect(job: string, experiment: RecordedExperiment): void {
    this.#expected.set(job, experiment);
  }

  forget(job: string): void {
    this.#expected.delete(job);
  }

  heldSeconds(): number {
    const live = [...this.#present.values()].map(({ sinceMs = this.#clock.nowMs() }) => this.#clock.nowMs() - sinceMs);
    return live.reduce((sum, ms) => sum + ms, this.#heldMs) / 1000;
  }

  submit(_: unknown, token: string): Promise<string> {
    this.#submitted += 1;
    const pilot: SimulatedPilot = { id: String(this.#submitted), token, sinceMs: undefined };
    this.#present.set(pilot.id, pilot);
    this.#pending.push(pilot);
    return new Promise((resolve) =>
      this.#clock.after(SBATCH_MS, () => {
        resolve(pilot.id);
        this.#schedule();
      }),
    );
  }

  pilots(): Promise<ReadonlySet<string>> {
    return Promise.resolve(new Set(this.#present.keys()));
  }

  whyEnded(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  cancel(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#end(this.#present.get(id));
    return Promise.resolve();
  }

  #schedule(): void {
    while (this.#free > 0) {
      const pilot = this.#pending.shift();
      if (!pilot) return;
      this.#free -= 1;
      pilot.sinceMs = this.#clock.nowMs();
      this.#clock.after(this.#options.startSeconds * 1000, () => this.#register(pilot));
    }
  }

  #register(pilot: SimulatedPilot): void {
    const sheet = findDataSheet(DEVICE)!;
    const link: PilotLink = {
      registered: () => undefined,
      assign: (assignment) => this.#carryOut(pilot, decoded(AssignmentSchema, create(AssignmentSchema, assignment))),
      stop: () => undefined,
      dismiss: () => this.#end(pilot),
      cut: () => undefined,
    };
    const register = create(RegisterSchema, {
      token: pilot.token,
      session: FleetTable.secret(),
      buildId: 'simulated',
      node: `node${Math.floor(Number(pilot.id) / this.#options.gpusPerNode)}`,
      device: create(DeviceSchema, { deviceId: 'gpu0', name: sheet.name, arch: sheet.arch }),
      clockMs: BigInt(Math.floor(this.#clock.nowMs())),
    });
    pilot.session = this.#pool!.register(register, link);
    this.#beat(pilot);
  }

  #beat(pilot: SimulatedPilot): void {
    this.#clock.after(BEAT_MS, () => {
      if (!this.#present.has(pilot.id)) return;
      pilot.session?.alive(0);
      this.#beat(pilot);
    });
  }

  #carryOut(pilot: SimulatedPilot, { job, lease }: Assignment): void {
    const { seconds, events, outcome, summary, result } = this.#expected.get(job)!;
    const say = (payload: JobEvent['payload'], atMs: number): void =>
      this.#clock.after(NETWORK_MS + atMs, () =>
        pilot.session?.event(Number(lease), decoded(JobEventSchema, create(JobEventSchema, { payload }))),
      );
    say({ case: 'started', value: create(JobStartedSchema) }, 0);
    events.forEach((payload, index) => say(payload, ((index + 1) / (events.length + 1)) * seconds * 1000));
    const value = create(JobFinishedSchema, { outcome, summary, result });
    say({ case: 'finished', value }, seconds * 1000);
  }

  #end(pilot: SimulatedPilot | undefined): void {
    if (!pilot || !this.#present.delete(pilot.id)) return;
    const waiting = this.#pending.indexOf(pilot);
    if (waiting >= 0) this.#pending.splice(waiting, 1);
    if (pilot.sinceMs === undefined) return;
    this.#heldMs += this.#clock.nowMs() - pilot.sinceMs;
    this.#free += 1;
    pilot.session?.lost('its pilot has ended');
    this.#schedule();
  }
}

/** The message as it would arrive over the network. */
const decoded = <Schema extends DescMessage>(schema: Schema, message: MessageShape<Schema>): MessageShape<Schema> =>
  fromBinary(schema, toBinary(schema, message));

function countOutcomes(jobs: readonly RecordedExperiment[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { outcome } of jobs) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return counts;
}
