import { clone, create } from '@bufbuild/protobuf';
import {
  AssignedRunSchema,
  AttemptStartedSchema,
  DeviceSchema,
  FlashcoreError,
  JobResultSchema,
  Outcome,
  ProvenanceSchema,
  WarningSchema,
  type AssignedRun,
  type BuildResult,
  type Fleet,
  type JobEvent,
  type JobFinished,
} from '@flashcore/shared/contract';
import { codeDigest } from '@flashcore/shared/kernels';
import type { KernelSettings } from '../experiment/kernel-settings.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import {
  JOB_KINDS,
  requestAgain,
  type DeviceLoad,
  type JobBody,
  type JobContext,
  type JobMethod,
  type JobOutcome,
  type JobPlanner,
  type JobQueues,
  type JobRequests,
  type KeptRequest,
  type PlannedJob,
} from '../jobs/job-context.ts';
import { labelOf, type JobSpec } from '../spec/job-spec.ts';
import { rankingMessage } from '../spec/ranked-run.ts';
import { planSdpa } from '../spec/sdpa-spec.ts';
import { planSpec } from '../spec/plan-spec.ts';
import { decidedElsewhere } from '../jobs/job-end.ts';
import type { KernelCatalog } from '../kernels.ts';
import { championFor } from '../store/decisions.ts';
import type { FleetTable } from '../store/fleet-table.ts';
import { BuiltVariants } from './built-variants.ts';
import type { BuiltAhead, GatewayBuilds } from './gateway-builds.ts';
import { NO_WANTS, wantsOf, type NodeWants } from './node-wants.ts';
import { LeaseLost, type Lease, type LeaseOptions } from './pilot-link.ts';
import type { PilotPool } from './pilot-pool.ts';
import { factsOf, stateOwnFacts, type OwnFacts } from './own-facts.ts';
import { pilotRequest, readPilotRequest } from './pilot-request.ts';

/** A job that has lost this many pilots is given up, because the job itself may be the cause. */
const MOST_ATTEMPTS = 5;

export interface FleetPlannerOptions extends PlannerOptions {
  pool: PilotPool;
  settings: KernelSettings;
  /** Builds jobs before they have a pilot; undefined if pilots build them. */
  builds: GatewayBuilds | undefined;
  describe: () => Fleet;
  begin: (queues: JobQueues) => Promise<void>;
  close: () => Promise<void>;
}

/** A planner whose devices are a cluster's partitions: the gateway checks jobs, and pilots run them. */
export function createFleetPlanner(options: FleetPlannerOptions): JobPlanner {
  const { pool, settings } = options;
  return {
    devices: () => pool.devices.list(),
    isolation: async () => {
      const box = await options.builds?.isolation();
      const detail = box ? `this gateway compiles only: ${box.detail}` : 'this gateway runs no foreign code';
      return { kind: box?.kind ?? 'none', detail: `${detail}; its nodes sandbox the code that they run` };
    },
    describeTools: () => Promise.resolve([]),
    rankedCases: (problem) => settings.rankedCases(problem),
    rulesDigest: (plan, problem) => settings.rulesDigest(plan, problem),
    prepare: () => Promise.resolve(options.builds?.prepare()),
    // The digest is empty, so that no judgement is reused: judgements depend on a node's compilers and engine, which
    // the gateway does not know.
    judging: () =>
      settings.judging({ heldOutShapes: options.heldOut?.length ?? 0, digest: () => '', logger: options.logger }),
    cacheUse: () => ({ hits: 0, misses: 0 }),
    // Jobs that are being built need no pilot yet. At least one job may wait in the pool, where it learns why no pilot
    // comes.
    capacity: (deviceId) =>
      pool.roster.connected(pool.devices.partitionOf(deviceId)) + Math.max(1, options.builds?.atOnce ?? 0),
    fleet: options.describe,
    begin: options.begin,
    close: options.close,
    planJob: (method, request, load) => {
      const cases = settings.cases();
      const devices = pool.devices.list();
      if (method === 'benchmark' && !request.kernel) {
        const { device } = planSdpa(request as JobRequests['benchmark'], { devices, cases, load });
        return planned({ method, label: 'SDPA', kernelId: '', deviceId: device.deviceId }, request, options);
      }
      const spec = specOf(method, request, { options, load });
      const { kernel, device } = spec;
      const about = { method, label: labelOf(spec), kernelId: kernel.kernelId, deviceId: device.deviceId, spec };
      return planned(about, request, options);
    },
    keptBody: (kept, deviceId) => bodyOf(kept, deviceId, options),
  };
}

interface SpecParts {
  options: FleetPlannerOptions;
  load: DeviceLoad;
}

function specOf<Method extends JobMethod>(
  method: Method,
  request: JobRequests[Method],
  { options, load }: SpecParts,
): JobSpec {
  const { pool, kernels, settings, decisions, heldOut = [] } = options;
  return planSpec(method, request, {
    devices: pool.devices.list(),
    kernels,
    toolchain: undefined,
    emulation: undefined,
    cases: (problem) => settings.cases(problem),
    gates: () => settings.gates(),
    championFor: (lineage, place) => championFor(decisions.champions(), { lineage, place }),
    load,
    heldOut,
  });
}

/** Plans a resumed job again. Its sources are named by content, and its device is the one chosen at first. */
function specAgain(kept: KeptRequest, deviceId: string, options: FleetPlannerOptions): JobSpec {
  return specOf(kept.method, requestAgain(kept, deviceId), { options, load: () => 0 });
}

interface About<Method extends JobMethod> {
  method: Method;
  label: string;
  kernelId: string;
  deviceId: string;
  spec?: JobSpec;
}

function planned<Method extends JobMethod>(
  { method, label, kernelId, deviceId, spec }: About<Method>,
  request: JobRequests[Method],
  options: FleetPlannerOptions,
): PlannedJob {
  // An accepted champion is only compared on a GPU, because only a GPU's times matter.
  const championBuild = spec?.device.simulated ? undefined : spec?.champion?.accepted?.buildId;
  const { kernels, sources } = options;
  // The request names all sources by content, so later edits of this host's kernels do not affect the job.
  const asked = pilotRequest(method, request, {
    kernels,
    sources,
    kernel: spec?.kernel,
    championBuild,
    assigned: spec && assignedRun(spec, kernels),
  });
  const code = spec && { codeDigest: codeDigest(spec.kernel) };
  return { kind: JOB_KINDS[method], label, kernelId, deviceId, ...code, kept: { method, request: asked } };
}

/**
 * The part of a run that a pilot can't decide, because it knows neither the champions nor the client's own request. It
 * includes the gateway's own facts about the result, so that the gateway need not plan the run again.
 */
function assignedRun(spec: JobSpec, kernels: KernelCatalog): AssignedRun | undefined {
  const { ranking, over, kernel } = spec;
  if (!ranking) return undefined;
  return create(AssignedRunSchema, {
    ranking: rankingMessage(ranking),
    facts: factsOf(spec, kernels.lineage(kernel)),
    ...(over && { championJob: over.job, championLabel: over.label }),
  });
}

/**
 * Gives the job to one pilot after another until one of them finishes it. After a restart of the gateway, the pilot
 * that had the job comes first. Errors: DEVICE_UNAVAILABLE.
 */
function bodyOf(kept: KeptRequest, deviceId: string, options: FleetPlannerOptions): JobBody {
  const { pool, kernels, builds } = options;
  const table = options.fleet!;
  return async (job) => {
    const { request, files, kernel, assigned } = readPilotRequest(kept);
    const variants = kernel && new BuiltVariants(kernel, { kernels, device: job.device });
    const before = table.leaseOf(job.name);
    let attempt = before?.attempts ?? 0;
    let planned: JobSpec | undefined;
    const spec = (): JobSpec => (planned ??= specAgain(kept, deviceId, options));
    const warnOnce = warningsOf(job);
    let building: Promise<BuiltAhead | undefined> | undefined;
    let reason = before && 'its pilot ended while the gateway was away';
    let lease = before && pool.leaseBefore(before);
    for (;;) {
      if (!lease) {
        if (attempt >= MOST_ATTEMPTS) throw givenUp(deviceId, reason!);
        building ??= kernel && builds?.build(job, spec());
        const made = await building;
        if (made?.ended) return tellAll(made.ended, job);
        const wants = (): NodeWants => (kernel ? wantsOf(spec(), made !== undefined) : NO_WANTS);
        lease = await pool.take(pool.devices.partitionOf(deviceId), job.name, {
          signal: job.signal,
          wants,
          onProblem: warnOnce,
        });
        attempt += 1;
        emitAttempt(job, { attempt, lease, reason, table });
      }
      job.hasDevice(true);
      try {
        const ahead = await building;
        const { compilations = [] } = ahead ?? {};
        const { method } = kept;
        const assignment = { job: job.name, owner: job.owner, attempt, method, request, files, compilations };
        const onEvent: LeaseOptions['onEvent'] = (event, noted) => relay(event, noted, { job, variants, ahead });
        const end = await lease.run(assignment, { onEvent, signal: job.signal });
        const own = kernel && {
          job: job.name,
          assigned,
          facts: () => factsOf(spec(), kernels.lineage(spec().kernel)),
        };
        const outcome = outcomeOf(end, { ahead, lease, own });
        const decided = job.signal.aborted ? decidedElsewhere(outcome) : undefined;
        if (decided) job.decide(decided);
        return outcome;
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        job.signal.throwIfAborted();
        reason = error.message;
        pool.account.requeues += 1;
        lease = undefined;
      } finally {
        job.hasDevice(false);
      }
    }
  };
}

/** Emits the events of a job that ended before it needed a device. */
function tellAll({ told, outcome }: NonNullable<BuiltAhead['ended']>, job: JobContext): JobOutcome {
  for (const payload of told) job.emit(payload);
  return outcome;
}

/**
 * Returns a function that warns the job about a problem, but only once about each kind of problem, because a job may
 * wait for days. Problems that differ only in numbers are of one kind.
 */
function warningsOf(job: JobContext): (problem: string) => void {
  const told = new Set<string>();
  return (problem) => {
    const kind = problem.replaceAll(/\d+/g, '');
    if (told.has(kind)) return;
    told.add(kind);
    job.emit({ case: 'warning', value: create(WarningSchema, { message: `No pilot yet. ${problem}` }) });
  };
}

interface Attempt {
  attempt: number;
  lease: Lease;
  /** Why the previous attempt ended; undefined for the first attempt. */
  reason: string | undefined;
  table: FleetTable;
}

function emitAttempt(job: JobContext, { attempt, lease, reason, table }: Attempt): void {
  const { node, device, number } = lease;
  job.emit(
    {
      case: 'attemptStarted',
      value: create(AttemptStartedSchema, { attempt, node, device, ...(reason !== undefined && { reason }) }),
    },
    () => table.attempted(number, attempt),
  );
}

const givenUp = (deviceId: string, reason: string): FlashcoreError =>
  new FlashcoreError(
    'DEVICE_UNAVAILABLE',
    { device_id: deviceId },
    `Look at the nodes: ${MOST_ATTEMPTS} pilots were lost with this job, the last because: ${reason}`,
  );

interface Relay {
  job: JobContext;
  variants: BuiltVariants | undefined;
  /** The build that the gateway already made for the job; undefined if the pilot builds the kernel. */
  ahead: BuiltAhead | undefined;
}

/** Events about the queue of the pilot's own runner, which mean nothing to the gateway's client. */
const NOT_RELAYED: readonly JobEvent['payload']['case'][] = ['created', 'started', 'attemptStarted', undefined];

function relay(event: JobEvent, noted: () => void, { job, variants, ahead }: Relay): void {
  const { payload } = event;
  if (NOT_RELAYED.includes(payload.case)) return;
  if (payload.case === 'buildResult') asBuilt(payload.value, ahead);
  variants?.note(event);
  job.emit(payload, noted);
}

/**
 * If the pilot's build is a cache hit that the gateway made for this job, reports the gateway's build time and compiler
 * runs instead.
 */
function asBuilt(found: BuildResult, ahead: BuiltAhead | undefined): void {
  const built = ahead?.builds.find(({ buildId }) => buildId === found.buildId);
  if (!built || !found.cacheHit) return;
  const { cacheHit, seconds, runs } = built;
  Object.assign(found, { cacheHit, seconds, runs });
}

function outcomeOf(
  { outcome, summary, result = create(JobResultSchema), error }: JobFinished,
  { ahead, lease, own }: Pick<Relay, 'ahead'> & { lease: Lease; own: OwnFacts | undefined },
): JobOutcome {
  // Every verdict has a provenance, even if the pilot sent none.
  if (outcome === Outcome.PASSED || outcome === Outcome.FAILED) result.provenance ??= create(ProvenanceSchema);
  const { provenance } = result;
  // Node and device are those with which the pilot registered, whatever its result says.
  const { node: hostName, schedulerJob, device } = lease;
  if (provenance) Object.assign(provenance, { hostName, schedulerJob, device: clone(DeviceSchema, device) });
  for (const { build } of result.variants) if (build) asBuilt(build, ahead);
  if (own) stateOwnFacts(result, outcome, own);
  // A job without a kernel, which only measures SDPA, has nothing to accept.
  else Object.assign(result, { acceptability: undefined, ranking: undefined });
  return { outcome, summary, result, ...(error && { error }) };
}
