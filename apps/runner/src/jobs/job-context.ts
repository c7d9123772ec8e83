import { create, fromBinary, toBinary, type DescMessage } from '@bufbuild/protobuf';
import {
  JobKind,
  JobOptionsSchema,
  KernelRunnerService,
  type Outcome,
  type BenchmarkRequest,
  type BuildRequest,
  type CaseSet,
  type Tolerance,
  type Device,
  type FlashcoreError,
  type Fleet,
  type GatePlan,
  type JobError,
  type JobEvent,
  type JobResult,
  type ProfileRequest,
  type RunExperimentRequest,
  type Shape,
  type Tool,
  type TuneRequest,
  type VerifyRequest,
} from '@flashcore/shared/contract';

/** A device that jobs run on. Its owner sets `state` and `stateReason`; the job queue adds BUSY. */
export type DeviceDescription = Device;

export type JobPayload = JobEvent['payload'];

/** The part of the daemon that a running job sees. */
export interface JobContext {
  /** "jobs/" and a UUID. */
  readonly name: string;
  /** The client that owns the job. */
  readonly owner: string;
  /**
   * Aborted by CancelJob, by the run limit and by the end of the daemon; the body must then stop everything it started
   * and settle, within two seconds.
   */
  readonly signal: AbortSignal;
  readonly device: DeviceDescription;
  /**
   * Appends an event. The event is stored when this returns, before any watcher can see it. Only log lines are stored
   * in batches, at the latest at the end of this turn of the event loop or with the next event of another kind.
   * `created`, `started` and `finished` are reserved for the queue. Never throws because of the store: if the store
   * takes no writes, the job is stopped. Does nothing once the job has ended. `alongside` runs in the transaction that
   * stores the event; the same function runs once for all events of a transaction.
   */
  readonly emit: (payload: JobPayload, alongside?: () => void) => void;
  /** For a body that takes its device itself: reports whether the job has the device from now on. */
  readonly hasDevice: (has: boolean) => void;
  /** Records partial results. If the body throws, they become the job's result, whatever its outcome. */
  readonly keep: (found: JobResult) => void;
  /**
   * Reports the job's outcome before its body has ended, because the rest of the body decides nothing. If the job is
   * stopped from now on, it ends with this outcome.
   */
  readonly decide: (end: JobOutcome) => void;
}

/** How a body ended. A thrown FlashcoreError means Outcome.ERROR instead: the runner has no answer. */
export interface JobOutcome {
  outcome: Outcome;
  /** One readable line. */
  summary: string;
  result: JobResult;
  /** Set when outcome is ERROR. */
  error?: JobError;
}

export type JobBody = (context: JobContext) => Promise<JobOutcome>;

/** The RPCs that start a job, with their requests. */
export interface JobRequests {
  build: BuildRequest;
  verify: VerifyRequest;
  benchmark: BenchmarkRequest;
  profile: ProfileRequest;
  runExperiment: RunExperimentRequest;
  tune: TuneRequest;
}

export type JobMethod = keyof JobRequests;

/** The job kind that each RPC starts. */
export const JOB_KINDS: Readonly<Record<JobMethod, JobKind>> = {
  build: JobKind.BUILD,
  verify: JobKind.VERIFY,
  benchmark: JobKind.BENCHMARK,
  profile: JobKind.PROFILE,
  runExperiment: JobKind.EXPERIMENT,
  tune: JobKind.TUNE,
};

/** A request that describes its job completely, even if the host's kernels change later. */
export interface KeptRequest {
  method: JobMethod;
  /** In protobuf's binary form. */
  request: Uint8Array;
}

/** A job that an earlier runner left in the queue. */
export interface QueuedBefore {
  deviceId: string;
  /** Digest of its kernel.yaml and sources when it was accepted; empty for a job without a kernel. */
  codeDigest: string;
}

/** A checked request, ready to be queued, with the body that carries it out. */
export type PlannedJob = AboutJob & (OwnBody | OfKeptRequest);

interface AboutJob {
  kind: JobKind;
  /** Kernel and variant, for example "flashcore_v6 USE_WMMA=0". */
  label: string;
  kernelId: string;
  /** Digest of kernel.yaml and the sources; absent for a job without a kernel. */
  codeDigest?: string;
  /** One of devices(): the one that the request names, or the first. */
  deviceId: string;
}

/** A job that ends as INTERRUPTED when its runner ends while it runs. */
interface OwnBody {
  body: JobBody;
  /** Its request, which lets the job stay in the queue if the runner is killed before the job starts. */
  again?: KeptRequest;
  /** The body takes and leaves its device itself and reports this; otherwise it has the device from start to end. */
  takesDevice?: boolean;
  /** Compiles what the body will need, while the job waits; absent: nothing is compiled. */
  compileAhead?: ((signal: AbortSignal) => Promise<void>) | undefined;
  kept?: undefined;
}

/**
 * A job whose request waits in the store. Its body, which takes and leaves its device itself, is made when the job
 * runs, even after a restart of the runner.
 */
interface OfKeptRequest {
  kept: KeptRequest;
  body?: undefined;
}

/** Number of jobs that wait for a device or hold it. */
export type DeviceLoad = (deviceId: string) => number;

/** The shapes of a problem's leaderboards, from its cases.yaml. */
export interface RankedCases {
  /** The leaderboard's shape if the request names none. */
  canonicalShape: Shape;
  caseSets: CaseSet[];
}

/** Turns requests into jobs, and owns the devices and tools that jobs run on. */
export interface JobPlanner {
  /** The host's devices, the default first. Cheap: starts no process and asks no driver. */
  devices(): DeviceDescription[];
  /** The shapes that a problem's leaderboard is about. Errors: INVALID_MANIFEST. */
  rankedCases(problem: string): RankedCases;
  /** Digest of the current rules of ranked runs with this plan and problem. Errors: INVALID_MANIFEST. */
  rulesDigest(plan: string, problem: string): string;
  /** Compilers and tools, found or not; may start processes. */
  describeTools(): Promise<Tool[]>;
  /** How foreign source is sandboxed. */
  isolation(): Promise<{ kind: 'bubblewrap' | 'none'; detail: string }>;
  /** Identifies compilers that are new or changed; must be awaited before planJob(). Never rejects. */
  prepare(): Promise<void>;
  /**
   * Checks a request and makes its job; if the request allows several devices, on the one with the fewest jobs. Starts
   * nothing. Errors: every error that bad input can cause is thrown here, as FlashcoreError.
   */
  planJob<Method extends JobMethod>(method: Method, request: JobRequests[Method], load: DeviceLoad): PlannedJob;
  /**
   * The plans that experiments are judged by, the default first, and the case sets; both are empty if a file can't be
   * read. Only the number of the host's secret shapes is given. The digest changes when any of these or the emulator's
   * engine changes; it is empty if a file can't be read.
   */
  judging(): Judging;
  /** Compilations requested since the start, split by cache hit and miss. */
  cacheUse(): { hits: number; misses: number };
  /** How many jobs a device runs at the same time; absent: one. */
  capacity?(deviceId: string): number;
  /** Makes the body of a job whose planJob() returned a kept request; absent: no request is kept. */
  keptBody?(kept: KeptRequest, deviceId: string): JobBody;
  /**
   * Makes the body of a job that an earlier runner left in the queue, from the request that planJob() returned as
   * `again`; absent: such jobs are INTERRUPTED.
   */
  bodyAgain?(kept: KeptRequest, queued: QueuedBefore): JobBody;
  /** The cluster behind a gateway; absent if the runner is not a gateway. */
  fleet?(): Fleet;
  /** Starts background work that needs the queues; absent if the planner has no such work. */
  begin?(queues: JobQueues): Promise<void>;
  /** Stops the worker processes. */
  close(): Promise<void>;
}

/** The plans, cases and tolerances that judge jobs, for GetHost. */
export interface Judging {
  plans: GatePlan[];
  caseSets: CaseSet[];
  /** The tolerances for fp16, the default first. */
  tolerances: Tolerance[];
  heldOutShapes: number;
  judgingDigest: string;
}

/** A client's jobs on a device, and how much it has used the device. */
export interface ClientLoad {
  client: string;
  waiting: number;
  running: number;
  /** Recent seconds, plus one for each job. */
  used: number;
  weight: number;
}

/** The queues, for a planner whose devices come and go. */
export interface JobQueues {
  waitingFor(deviceId: string): number;
  clientsOf(deviceId: string): ClientLoad[];
  startWaiting(): void;
  /** Why nothing can be stored; undefined if the store takes writes. */
  readonly storeFailure: FlashcoreError | undefined;
}

/** A request in the form in which the store keeps it. */
export const keptRequest = <Method extends JobMethod>(method: Method, request: JobRequests[Method]): KeptRequest => ({
  method,
  request: toBinary(inputOf(method), request as never),
});

/** A kept request to plan again. Its device is the one chosen at first; the queue already has its other options. */
export function requestAgain<Method extends JobMethod>(
  { method, request }: KeptRequest & { method: Method },
  deviceId: string,
): JobRequests[Method] {
  const again = fromBinary(inputOf(method), request) as unknown as JobRequests[Method];
  again.options = create(JobOptionsSchema, { deviceId });
  return again;
}

const inputOf = (method: JobMethod): DescMessage => KernelRunnerService.method[method].input;
