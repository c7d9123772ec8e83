import {
  JobKind,
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

/** A device that jobs run on; `state` and `stateReason` say what its owner knows, the job queue adds BUSY. */
export type DeviceDescription = Device;

export type JobPayload = JobEvent['payload'];

/** What a running job sees of the daemon. */
export interface JobContext {
  /** "jobs/" and a UUID. */
  readonly name: string;
  /** The client whose job it is. */
  readonly owner: string;
  /**
   * Aborted by CancelJob, by the run limit and by the end of the daemon; the body then stops what it started, within
   * two seconds, and settles.
   */
  readonly signal: AbortSignal;
  readonly device: DeviceDescription;
  /**
   * Appends an event. It is stored when this returns, before any watcher can see it; log lines alone are stored in
   * batches, at the latest at the end of this turn of the event loop or with the next event of another kind. `created`,
   * `started` and `finished` are the queue's own. Never throws because of the store: where that takes no writes the job
   * is stopped. Does nothing once the job has ended. `alongside` is done in the transaction that stores the event, the
   * same function once for all events that one transaction stores.
   */
  readonly emit: (payload: JobPayload, alongside?: () => void) => void;
  /** Of a body that takes its device itself: whether the job has it from now on. */
  readonly hasDevice: (has: boolean) => void;
  /**
   * Takes what a body has found out that comes to no end: it throws, and the job's result, whatever its outcome, has
   * this.
   */
  readonly keep: (found: JobResult) => void;
}

/** How a body ended. Throwing a FlashcoreError instead means Outcome.ERROR: the runner could not find out. */
export interface JobOutcome {
  outcome: Outcome;
  /** One line for people. */
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

/** The kind of job that each starts. */
export const JOB_KINDS: Readonly<Record<JobMethod, JobKind>> = {
  build: JobKind.BUILD,
  verify: JobKind.VERIFY,
  benchmark: JobKind.BENCHMARK,
  profile: JobKind.PROFILE,
  runExperiment: JobKind.EXPERIMENT,
  tune: JobKind.TUNE,
};

/** A request that says all of its job, whatever becomes of the host's kernels. */
export interface KeptRequest {
  method: JobMethod;
  /** In protobuf's binary form. */
  request: Uint8Array;
}

/** A request that was found good, ready to be queued, and what carries it out. */
export type PlannedJob = AboutJob & (OwnBody | OfKeptRequest);

interface AboutJob {
  kind: JobKind;
  /** Kernel and variant, for example "flashcore_v6 USE_WMMA=0". */
  label: string;
  kernelId: string;
  /** One of devices(); the request's, or the first. */
  deviceId: string;
}

/** A job that ends with its runner: INTERRUPTED. */
interface OwnBody {
  body: JobBody;
  /** The body takes and leaves its device itself, and says when; else it has it from its start to its end. */
  takesDevice?: boolean;
  kept?: undefined;
}

/**
 * A job that waits in the store: a body, which takes and leaves its device itself, is made when it runs, also by a
 * runner that is started again.
 */
interface OfKeptRequest {
  kept: KeptRequest;
  body?: undefined;
}

/** Jobs that a device has: those that wait for it, and the one that holds it. */
export type DeviceLoad = (deviceId: string) => number;

/** Of a problem's cases.yaml. */
export interface RankedCases {
  /** What a leaderboard is about where nobody names a shape. */
  canonicalShape: Shape;
  caseSets: CaseSet[];
}

/** Turns requests into jobs, and holds what they run on. */
export interface JobPlanner {
  /** The host's devices, the default first. Cheap: no process is started and no driver is asked. */
  devices(): DeviceDescription[];
  /** What a leaderboard of a problem is about. Errors: INVALID_MANIFEST. */
  rankedCases(problem: string): RankedCases;
  /** Compilers and tools, found or not; may start processes. */
  describeTools(): Promise<Tool[]>;
  /** How foreign source is boxed. */
  isolation(): Promise<{ kind: 'bubblewrap' | 'none'; detail: string }>;
  /** Asks compilers that are new or changed what they are: to be awaited before planJob(). Never rejects. */
  prepare(): Promise<void>;
  /**
   * Checks a request and makes its job, on the device with the fewest jobs where it may be any. Starts nothing. Errors:
   * all that bad input can give, at once, as FlashcoreError.
   */
  planJob<Method extends JobMethod>(method: Method, request: JobRequests[Method], load: DeviceLoad): PlannedJob;
  /**
   * The plans that experiments are judged by, the default first, and the case sets; none where a file can't be read. Of
   * the shapes that the host keeps to itself the number. The digest changes when one of all these does, or the
   * emulator's engine; it is empty where a file can't be read.
   */
  judging(): {
    plans: GatePlan[];
    caseSets: CaseSet[];
    tolerances: Tolerance[];
    heldOutShapes: number;
    judgingDigest: string;
  };
  /** Compilations asked for since the start, found in the cache or not. */
  cacheUse(): { hits: number; misses: number };
  /** Jobs that a device runs side by side; absent: one. */
  capacity?(deviceId: string): number;
  /** The body of a job of which planJob() gave what is kept; absent: it gives none. */
  keptBody?(kept: KeptRequest, deviceId: string): JobBody;
  /** The cluster behind a gateway; absent: there is none. */
  fleet?(): Fleet;
  /** Begins what needs the queues; absent: nothing does. */
  begin?(queues: JobQueues): Promise<void>;
  /** Ends worker processes. */
  close(): Promise<void>;
}

/** What a client has of a device. */
export interface ClientLoad {
  client: string;
  waiting: number;
  running: number;
  /** Seconds lately, and one for each job. */
  used: number;
  weight: number;
}

/** The queues, for a planner whose devices come and go. */
export interface JobQueues {
  waitingFor(deviceId: string): number;
  clientsOf(deviceId: string): ClientLoad[];
  startWaiting(): void;
  /** Why nothing can be stored; undefined: it can. */
  readonly storeFailure: FlashcoreError | undefined;
}
