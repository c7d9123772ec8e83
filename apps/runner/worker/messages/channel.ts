/**
 * Messages between the daemon and its worker process: requests, notices and replies. They are plain data sent over the
 * fork's IPC channel (structured clone). One request is in flight at a time and gets exactly one reply, after any
 * number of notices. Launches, shapes and results are defined in the contract and the manifests.
 */
import type { DeviceConditions, Plain } from '@flashcore/shared/contract';
import type { OpenRequest, CanaryRequest, ConditionsRequest, DeviceFacts } from './device.ts';
import type {
  TimingModeName,
  BenchmarkRequest,
  CompareRequest,
  DrawRequest,
  LatencyReport,
  ComparisonReport,
} from './measuring.ts';
import type { CountRequest, CountReport } from './profiling.ts';
import type { PrepareRequest, VerifyRequest, RunOnceRequest, VerifiedOutput, CaseReport } from './verifying.ts';

export type WorkerRequest =
  | OpenRequest
  | CanaryRequest
  | PrepareRequest
  | VerifyRequest
  | RunOnceRequest
  | CountRequest
  | DrawRequest
  | BenchmarkRequest
  | CompareRequest
  | ConditionsRequest;

/**
 * A request as it is sent. `outputEnd` is an unguessable line: the worker writes it to its stdout and stderr after the
 * output of the request's kernels, and then answers.
 */
export type SentRequest<Request extends WorkerRequest = WorkerRequest> = Request & { outputEnd: string };

export interface ReplyByRequest {
  open: DeviceFacts;
  canary: null;
  prepare: null;
  verify: CaseReport;
  'run-once': null;
  count: CountReport;
  draw: null;
  benchmark: LatencyReport[];
  compare: ComparisonReport[];
  conditions: Plain<DeviceConditions>;
}

export type WorkerNotice =
  /** The worker enters a call that may block. If no other message comes within the limit, kill the worker. */
  | { type: 'step'; what: string; limitMs: number }
  | { type: 'seed'; index: number }
  /** How many blocks the running launches have begun, and the seconds since the launches started. */
  | { type: 'launch'; blocksBegun: number; blocks: number; seconds: number }
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
  /** The process with the candidate's code exited, or was killed because of its invalid messages. */
  | { type: 'crashed'; exitCode: number | null; signalName: string | null; problem?: string | undefined }
  /** A fault of the runner, the host or, with `wrongDefinition`, the problem's own reference; not of the kernel. */
  | { type: 'failed'; message: string; wrongDefinition?: boolean };

/** Answers a turn. */
export interface Proceed {
  type: 'proceed';
}

export type WorkerMessage = WorkerNotice | WorkerReply;

/** A fault as the emulator describes it (flashcore_emulator_last_fault). */
export interface EmulatorFault {
  kind: string;
  message: string;
  entry?: string;
  block?: number[];
  thread?: number[];
  /** The warp of `thread`, and a bit mask of its lanes that did the same. */
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

/** A failed CUDA call. The worker exits after it, because the context can no longer be trusted. */
export interface CudaFault {
  call: string;
  arguments: string;
  /** CUDA's name, for example "CUDA_ERROR_ILLEGAL_ADDRESS". */
  name: string;
  description: string;
  emulator?: EmulatorFault;
  /** The buffer at or near the faulting address, for example "16 bytes past the end of O". */
  buffer?: string;
  /** Seed of the run. */
  seed?: string;
}
