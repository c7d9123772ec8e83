/**
 * All that the daemon and its worker process share: plain data, sent over the fork's IPC channel (structured clone).
 * One request is in flight at a time; it is answered by exactly one reply, before which come any number of notices.
 */

export type TensorName = 'Q' | 'K' | 'V' | 'O';

/** Q, K, V, O are [batch, heads, sequenceLength, headDim] contiguous fp16. */
export interface CaseShape {
  batch: number;
  heads: number;
  sequenceLength: number;
  headDim: number;
  causal: boolean;
}

export type LaunchArgument =
  | { kind: 'tensor'; tensor: TensorName }
  | { kind: 'workspace'; name: string }
  | { kind: 'int32'; value: number }
  | { kind: 'float32'; value: number }
  | { kind: 'tensorMap'; tensor: TensorName; box: number[]; swizzle: 'none' | '32B' | '64B' | '128B' };

export interface Launch {
  entry: string;
  grid: [number, number, number];
  block: [number, number, number];
  /** Dynamic shared memory, bytes. */
  sharedBytes: number;
  cluster?: [number, number, number];
  /** Tensors to keep in L2 by an access-policy window. */
  l2Persist: TensorName[];
  arguments: LaunchArgument[];
}

/** What to launch for a shape, in order, and the device buffers that it needs beside Q, K, V and O. */
export interface KernelPlan {
  launches: Launch[];
  workspace: { name: string; bytes: number }[];
}

/** How one of Q, K, V is drawn. */
export type TensorRule = 'normal' | 'constant' | 'one_hot';

export interface InputRule {
  /** Name of the distribution, for reports. */
  name: string;
  q: TensorRule;
  k: TensorRule;
  v: TensorRule;
  /** Multiplies Q, so that every logit grows by it. */
  logitScale: number;
  /** Multiplies V. */
  valueScale: number;
}

export interface SeededInput {
  /** Hexadecimal, up to 32 digits. */
  seed: string;
  rule: InputRule;
}

/** A compiled kernel and what to launch of it. */
export interface Candidate {
  /** Path of the cubin, or of the emulator's module. */
  image: string;
  shape: CaseShape;
  plan: KernelPlan;
  /** Limit on one run of all launches; the process is killed when it is exceeded. */
  launchLimitMs: number;
}

/** How a process is started that loads and launches what candidates bring; the driver library's path comes last. */
export interface Executor {
  program: string;
  args: string[];
  env: Record<string, string>;
  /** Without a box: "NAME=value" in its environment, by which what it leaves behind is found. */
  mark?: string;
}

export interface OpenRequest {
  type: 'open';
  /** "libcuda.so.1", or the path of libcuda_emu.so. */
  library: string;
  deviceOrdinal: number;
  /** Where candidates' modules have host code (the emulator's): the library is loaded in such a process alone. */
  executor?: Executor;
  /** Path of the CPU reference; verification and benchmark need it. */
  referenceLibrary: string;
  /** NVML's library, to read clocks and temperature; empty where there is none. */
  nvmlLibrary: string;
  /** clock-stamp.cu, compiled for the device; empty: the clock of samples is not measured. */
  clockStampImage: string;
}

/** Launches a kernel that writes `block * grid` known numbers, and checks them. */
export interface CanaryRequest {
  type: 'canary';
  image: string;
}

export interface VerifyRequest {
  type: 'verify';
  candidate: Candidate;
  inputs: SeededInput[];
  /** |out - ref| <= absolute + relative * |ref|. */
  tolerance: { absolute: number; relative: number };
  /** Run the first input twice and compare the bits. */
  checkDeterminism: boolean;
  /**
   * Of so many inputs, from the first, tell tensors, output and reference: they are compared with another
   * implementation.
   */
  tellOutputs: number;
}

/** What a kernel was given, what it made of it, and what is right. fp16 bits, but for the reference. */
export interface VerifiedOutput {
  Q: Uint16Array;
  K: Uint16Array;
  V: Uint16Array;
  O: Uint16Array;
  reference: Float64Array;
  /** Of O against the reference. */
  maxAbsError: number;
  meanAbsError: number;
}

/** Runs a candidate once, for its faults only. */
export interface RunOnceRequest {
  type: 'run-once';
  candidate: Candidate;
  input: SeededInput;
}

export type TimingModeName = 'cold' | 'hot';

export interface BenchmarkRequest {
  type: 'benchmark';
  candidate: Candidate;
  modes: TimingModeName[];
  /** One per rotating input set. */
  seeds: string[];
  /** Likewise, for the inputs that are swapped in at a secret sample of each mode. */
  freshSeeds: string[];
  tolerance: { absolute: number; relative: number };
  protocol: SamplingProtocol;
  /**
   * A ratio of times on new and on seen inputs above this one is measured again, and the least counts; Infinity: what
   * was measured first.
   */
  repeatFreshAbove: number;
  /**
   * Stop after each batch of samples, announce a turn and wait for `proceed`: something else is measured in turns with
   * the candidate.
   */
  turns: boolean;
  /** Launches of a plain loop with one event pair around it, after all else; 0: none. */
  legacyLaunches: number;
  /** Processes on the device that are no strangers. */
  ownProcesses: number[];
}

/** Two builds in interleaved blocks A B B A; before that the champion against a second copy of itself. */
export interface CompareRequest {
  type: 'compare';
  /** A. */
  champion: Candidate;
  /** B. */
  candidate: Candidate;
  modes: TimingModeName[];
  /** One per rotating input set, the same for both. */
  seeds: string[];
  /** Likewise, for the inputs that are swapped in at a secret block of each of a mode's two series. */
  freshSeeds: string[];
  tolerance: { absolute: number; relative: number };
  /** `minSamples` of each build, `maxSeconds` for each of the two series. */
  protocol: SamplingProtocol;
  ownProcesses: number[];
}

/** The device's state now. */
export interface ConditionsRequest {
  type: 'conditions';
  ownProcesses: number[];
}

export interface SamplingProtocol {
  minSamples: number;
  maxSamples: number;
  /** Limit a mode, warm-up not counted. */
  maxSeconds: number;
  warmUpMaxSeconds: number;
  /** Launches of a graph in hot mode; 0: as many as take about 2 ms. */
  launchesPerSample: number;
  targetRelativeHalfWidth: number;
  /** The request said how many samples at most. */
  samplesAsked: boolean;
}

/** What profile-once.ts reads from its file: a program of its own, for a profiler to be wrapped around. */
export interface ProfileOnceJob {
  library: string;
  deviceOrdinal: number;
  candidate: Candidate;
  seed: string;
  /** Runs of all launches: the last one is profiled, those before it warm the caches. */
  runs: number;
}

export type WorkerRequest =
  OpenRequest | CanaryRequest | VerifyRequest | RunOnceRequest | BenchmarkRequest | CompareRequest | ConditionsRequest;

export interface DeviceFacts {
  name: string;
  arch: string;
  simulated: boolean;
  multiprocessors: number;
  memoryBytes: number;
  l2Bytes: number;
  smemOptinBytes: number;
  smemPerMultiprocessorBytes: number;
  registersPerMultiprocessor: number;
  /** Most of L2 that access-policy windows can keep; 0: it has none. */
  persistingL2Bytes: number;
  /** Whether launches can have clusters. */
  clusters: boolean;
  /** CUDA version of the driver, for example "13.0". */
  driverVersion: string;
}

export interface WrongElement {
  batch: number;
  head: number;
  row: number;
  column: number;
  got: number;
  want: number;
}

export interface ErrorMapData {
  rows: number;
  columns: number;
  blockRows: number;
  blockColumns: number;
  /** [rows, columns]; NaN where an element is NaN. */
  maxAbsError: number[];
  /**
   * [rows, columns]: index in [B, H, S, D] of the block's worst element, what was written there and what the reference
   * has.
   */
  worstIndex: number[];
  worstGot: number[];
  worstWant: number[];
  /** [batch, heads, rows, columns]; empty where there are too many heads. */
  headMaxAbsError: number[];
}

/** A case over all its seeds; the fields mean what CaseResult says. */
export interface CaseReport {
  seeds: number;
  maxAbsError: number;
  meanAbsError: number;
  rmsError: number;
  maxRelError: number;
  p999AbsError: number;
  mismatches: number;
  nanCount: number;
  infCount: number;
  unwrittenCount: number;
  elements: number;
  worst?: WrongElement;
  firstMismatches: WrongElement[];
  fp16MaxAbsError: number;
  flashAttentionRule: boolean;
  /** Undefined when not looked at. */
  deterministic?: boolean;
  errorMap: ErrorMapData;
  /** Buffers that the kernel changed and must not: "K", "guard bytes after O". */
  modified: string[];
  /** Right at first, and wrong when the bytes before and after the buffers were others: so many elements. */
  straying: number;
  /** The output's norm is less than half of the reference's on some seed. */
  trivialNorm: boolean;
  seconds: number;
  /** Where they went. */
  kernelSeconds: number;
  referenceSeconds: number;
}

export type StopReasonName = 'converged' | 'noise-floor' | 'timed-out' | 'sample-limit';

export interface LatencyReport {
  mode: TimingModeName;
  /** Microseconds a launch, in order; 0 marks a dropped one. */
  samplesUs: Float32Array;
  /** SM clock of each, MHz; 0 where it is not known. */
  clocksMhz: Float32Array;
  /** How the clocks were measured, or why they were not. */
  clockSource: string;
  /** Samples whose clock fell and that were kept, for in turns none is dropped. */
  slowed: number;
  /** Samples of batches in which the device was throttled, and that were kept for the same reason. */
  throttled: number;
  stopReason: StopReasonName;
  launchesPerSample: number;
  /** Median of an empty event pair, microseconds. */
  eventOverheadUs: number;
  outputCheck: { passed: boolean; detail: string };
  /**
   * Time of a row of launches whose inputs change under way, over that of a row whose inputs do not; undefined where a
   * launch takes too long to look.
   */
  freshRatio?: number;
  /** Mean of a plain loop's launches, microseconds, in the last report; undefined where none was asked for. */
  legacyLoopUs?: number;
  conditions: ConditionsReport;
}

/** Samples of two builds in blocks A B B A: the two of each build's in a block follow each other. */
export interface PairedSamples {
  /** Microseconds a launch; a block in which the device slowed down is 0 in both. */
  championUs: Float32Array;
  candidateUs: Float32Array;
  /** SM clock of each sample, MHz; 0 where it is not known. */
  championMhz: Float32Array;
  candidateMhz: Float32Array;
  stopReason: StopReasonName;
}

export interface ComparisonReport {
  mode: TimingModeName;
  launchesPerSample: number;
  /** The champion against its second copy. */
  self: PairedSamples;
  pairs: PairedSamples;
  clockSource: string;
  championCheck: LatencyReport['outputCheck'];
  candidateCheck: LatencyReport['outputCheck'];
  conditions: ConditionsReport;
}

/** NVML's view of the device; undefined: not measurable, `notMeasured` says why. */
export interface ConditionsReport {
  smClockMhz?: number;
  maxSmClockMhz?: number;
  memoryClockMhz?: number;
  temperatureC?: number;
  powerW?: number;
  powerLimitW?: number;
  persistenceMode?: boolean;
  throttleReasons: string[];
  otherProcesses?: number;
  notMeasured?: string;
}

export interface ReplyByRequest {
  open: DeviceFacts;
  canary: null;
  verify: CaseReport;
  'run-once': null;
  benchmark: LatencyReport[];
  compare: ComparisonReport[];
  conditions: ConditionsReport;
}

/** What the emulator says about a fault (flashcore_emulator_last_fault). */
export interface EmulatorFault {
  kind: string;
  message: string;
  entry?: string;
  block?: number[];
  thread?: number[];
  /** "flashcore_v6.cu:31". */
  place?: string;
  address?: string;
  access?: string;
  bytes?: number;
  buffer?: string;
  threads?: { thread: number[]; waits_at: string }[];
  threads_total?: number;
}

/** A CUDA call that failed. The worker exits after it: the context can't be trusted any more. */
export interface CudaFault {
  call: string;
  arguments: string;
  /** CUDA's name, for example "CUDA_ERROR_ILLEGAL_ADDRESS". */
  name: string;
  description: string;
  emulator?: EmulatorFault;
  /** Buffer that the faulting address lies in or beyond, for example "16 bytes past the end of O". */
  buffer?: string;
  /** Seed that ran. */
  seed?: string;
}

export type WorkerNotice =
  /** The worker enters a call that may block; it is to be killed when no other message comes within the limit. */
  | { type: 'step'; what: string; limitMs: number }
  | { type: 'seed'; index: number }
  | { type: 'output'; output: VerifiedOutput }
  | { type: 'samples'; mode: TimingModeName; warmUp: boolean; samplesUs: Float32Array }
  | { type: 'conditions'; conditions: ConditionsReport }
  /** New blocks of a comparison. */
  | { type: 'pairs'; mode: TimingModeName; selfCheck: boolean; championUs: Float32Array; candidateUs: Float32Array }
  /** The worker's device is idle until `proceed` comes. */
  | { type: 'turn'; mode: TimingModeName };

export type WorkerReply =
  | { type: 'done'; value: ReplyByRequest[keyof ReplyByRequest] }
  | { type: 'fault'; fault: CudaFault }
  /** The process with the candidate's code ended, or was ended for what it sent. */
  | { type: 'crashed'; exitCode: number | null; signalName: string | null; problem: string }
  /** A fault of ours, or of the host: not the kernel's. */
  | { type: 'failed'; message: string };

/** Answers a turn. */
export interface Proceed {
  type: 'proceed';
}

export type WorkerMessage = WorkerNotice | WorkerReply;
