/**
 * What the daemon and its worker process tell each other: requests, notices and replies, plain data sent over the
 * fork's IPC channel (structured clone). One request is in flight at a time; it is answered by exactly one reply,
 * before which come any number of notices. What a launch, a shape or a result is, the contract and the manifests say.
 */
import type { DeviceConditions } from '@flashcore/shared/contract';
import type { OpenRequest, CanaryRequest, ConditionsRequest, DeviceFacts } from './device.ts';
import type { CudaFault } from './faults.ts';
import type { TimingModeName, BenchmarkRequest, CompareRequest, LatencyReport, ComparisonReport } from './measuring.ts';
import type { Plain } from './plain.ts';
import type { CountRequest, CountReport } from './profiling.ts';
import type { PrepareRequest, VerifyRequest, RunOnceRequest, VerifiedOutput, CaseReport } from './verifying.ts';

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

/**
 * A request as it is sent. `outputEnd` is a line that nobody can guess: the worker writes it to its stdout and stderr
 * behind what the request's kernels have printed there, and then answers.
 */
export type SentRequest<Request extends WorkerRequest = WorkerRequest> = Request & { outputEnd: string };

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
