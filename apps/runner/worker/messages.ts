/**
 * What the daemon and its worker process tell each other: requests, notices and replies, plain data sent over the
 * fork's IPC channel (structured clone). One request is in flight at a time; it is answered by exactly one reply,
 * before which come any number of notices. What a launch, a shape or a result is, the contract and the manifests say.
 */
import type {
  CaseResult,
  Device,
  DeviceConditions,
  ElementError,
  ErrorMap,
  StopReason,
  TimingMode,
} from '@flashcore/shared/contract';
import type { Distribution, LaunchPlan, ShapeFields, TensorDtype } from '@flashcore/shared/kernels';

/** The fields of a message of the contract. */
export type Plain<Message> = Omit<Message, '$typeName' | '$unknown'>;

/** The names of an enum of the contract. */
type EnumName<Enum> = Exclude<keyof Enum & string, 'UNSPECIFIED'>;

/** How Q, K and V are drawn. */
export type InputRule = Omit<Distribution, 'about' | 'finds'>;

export interface SeededInput {
  /** Hexadecimal, up to 32 digits. */
  seed: string;
  rule: InputRule;
}

/**
 * What a device loads of a kernel: the path of a cubin, or of the emulator's module. Where entries were compiled apart
 * from each other: that of each entry by its name.
 */
export type DeviceImage = string | Readonly<Record<string, string>>;

/** A compiled kernel and what to launch of it. */
export interface Candidate {
  image: DeviceImage;
  shape: ShapeFields;
  plan: LaunchPlan;
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
  /** Folder of the cgroup that it is in, where the host has one: all that is in it ends with the request. */
  group?: string;
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
  /** NVML's library, to read clocks and temperature; absent where there is none. */
  nvmlLibrary?: string | undefined;
  /** clock-stamp.cu, compiled for the device; absent: the clock of samples is not measured. */
  clockStampImage?: string | undefined;
}

/** A case to come: inputs and reference may be computed at once. */
export interface PreparedCase {
  kind: { shape: ShapeFields; dtype: TensorDtype };
  inputs: SeededInput[];
}

/** Computes what verifications to come need, in the background: it is answered at once. */
export interface PrepareRequest {
  type: 'prepare';
  cases: PreparedCase[];
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
  /**
   * The same candidate, watched: it runs the first input in the candidate's place, for it computes the same bits, and
   * its faults are told besides.
   */
  watched?: Candidate | undefined;
  /** Run the first input twice and compare the bits. */
  checkDeterminism: boolean;
  /** Go on after an input that failed; default: stop there. */
  allInputs?: boolean;
  /**
   * Of so many inputs, from the first, tell tensors, output and reference: they are compared with another
   * implementation.
   */
  tellOutputs: number;
}

/** What a kernel was given, what it made of it, and what is right. Bits of the dtype, but for the reference. */
export interface VerifiedOutput {
  dtype: TensorDtype;
  Q: Uint16Array | Uint32Array;
  K: Uint16Array | Uint32Array;
  V: Uint16Array | Uint32Array;
  O: Uint16Array | Uint32Array;
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

/** Runs a candidate once on the emulator's PTX engine and counts what it does. */
export interface CountRequest {
  type: 'count';
  candidate: Candidate;
  input: SeededInput;
  /** The GPU that a few CTAs are walked for as well, step by step. */
  filling?: Filling | undefined;
}

/** How a launch fills a GPU. */
export interface Filling {
  ctas: number;
  multiprocessors: number;
  /** CTAs that one multiprocessor holds at a time, at least 1. */
  residents: number;
  /** Of a thread, after ptxas. */
  registers: number;
}

export interface CountReport {
  launches: LaunchCounts[];
  /** Of the multiprocessor that has most to do; undefined: not asked for, or see noCycles. */
  cycles?: number | undefined;
  /** Why the model has none. */
  noCycles?: string | undefined;
}

/** What a launch did, by the emulator's names (libs/emulator/ptx/counters.cpp); what is 0 is absent. */
export interface LaunchCounts {
  entry: string;
  blocks: number;
  counts: Record<string, number>;
  /** By "flashcore_v6.cu:43". */
  lines: Record<string, Record<string, number>>;
}

/** "cold" or "hot". */
export type TimingModeName = Lowercase<EnumName<typeof TimingMode>>;

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
  /**
   * Everything but the module is made ready, and nothing loaded or launched before this file is there; what it says is
   * the image as JSON then, in place of the candidate's.
   */
  waitFor?: string;
  /** This file is made when the last launch has ended, and nothing of the device is used any more. */
  done?: string;
}

export type WorkerRequest =
  | OpenRequest
  | CanaryRequest
  | PrepareRequest
  | VerifyRequest
  | RunOnceRequest
  | CountRequest
  | BenchmarkRequest
  | CompareRequest
  | ConditionsRequest;

/** What the driver says of a device. Also said as JSON, by `--list-devices`: sizes are numbers. */
export type DeviceFacts = Pick<
  Device,
  | 'name'
  | 'arch'
  | 'simulated'
  | 'multiprocessors'
  | 'smemOptinBytes'
  | 'smemPerMultiprocessorBytes'
  | 'registersPerMultiprocessor'
  | 'clusters'
  | 'driverVersion'
> &
  Record<'memoryBytes' | 'l2Bytes' | 'persistingL2Bytes', number>;

/** The error map but for the CTA's tile, which the manifest says. */
export type ErrorBlocks = Plain<Omit<ErrorMap, 'tileRows'>>;

/** What CaseResult has of a case over all its seeds. */
export interface CaseFigures extends Pick<
  CaseResult,
  | 'seeds'
  | 'maxAbsError'
  | 'meanAbsError'
  | 'rmsError'
  | 'maxRelError'
  | 'p999AbsError'
  | 'mismatches'
  | 'nanCount'
  | 'infCount'
  | 'unwrittenCount'
  | 'elements'
  | 'fp16MaxAbsError'
  | 'deterministic'
  | 'seconds'
> {
  worst?: Plain<ElementError>;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
}

/** A case over all its seeds. */
export interface CaseReport {
  figures: CaseFigures;
  /** What was found on each input, in order. */
  inputs: { failed: boolean; maxAbsError: number }[];
  flashAttentionRule: boolean;
  /** Buffers that the kernel changed and must not: "K", "guard bytes after O". */
  modified: string[];
  /** Right at first, and wrong when the bytes before and after the buffers were others: so many elements. */
  straying: number;
  /** The output's norm is less than half of the reference's on some seed. */
  trivialNorm: boolean;
  /** Where the seconds went. */
  kernelSeconds: number;
  referenceSeconds: number;
}

/** For example "NOISE_FLOOR". */
export type StopReasonName = EnumName<typeof StopReason>;

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
  conditions: Plain<DeviceConditions>;
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
  conditions: Plain<DeviceConditions>;
}

export interface ReplyByRequest {
  open: DeviceFacts;
  canary: null;
  prepare: null;
  verify: CaseReport;
  'run-once': null;
  count: CountReport;
  benchmark: LatencyReport[];
  compare: ComparisonReport[];
  conditions: Plain<DeviceConditions>;
}

/** What the emulator says about a fault (flashcore_emulator_last_fault). */
export interface EmulatorFault {
  kind: string;
  message: string;
  entry?: string;
  block?: number[];
  thread?: number[];
  /** The warp of `thread`, and the lanes of it that did the same, as bits. */
  warp?: number;
  lanes?: number;
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
  | { type: 'conditions'; conditions: Plain<DeviceConditions> }
  /** New blocks of a comparison. */
  | { type: 'pairs'; mode: TimingModeName; selfCheck: boolean; championUs: Float32Array; candidateUs: Float32Array }
  /** The worker's device is idle until `proceed` comes. */
  | { type: 'turn'; mode: TimingModeName };

export type WorkerReply =
  | { type: 'done'; value: ReplyByRequest[keyof ReplyByRequest] }
  | { type: 'fault'; fault: CudaFault }
  /** The process with the candidate's code ended, or was ended for what it sent. */
  | { type: 'crashed'; exitCode: number | null; signalName: string | null; problem?: string | undefined }
  /** A fault of ours, or of the host: not the kernel's. */
  | { type: 'failed'; message: string };

/** Answers a turn. */
export interface Proceed {
  type: 'proceed';
}

export type WorkerMessage = WorkerNotice | WorkerReply;
