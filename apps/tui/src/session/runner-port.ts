/** What fa-tui asks of a runner: the typed client has it all; tests put a replay of a job in its place. */
import { type JobRpcName, type RpcRequestInit, type RunnerClient } from '@flashcore/shared/client';
import { type KernelReference } from '@flashcore/shared/contract';

export type RunnerPort = Pick<
  RunnerClient,
  | 'getHost'
  | 'listJobs'
  | 'cancelJob'
  | 'listKernels'
  | 'listExperiments'
  | 'getLeaderboard'
  | 'start'
  | 'watch'
  | 'readArtifact'
  | 'uploadFolder'
  | 'accept'
  | 'reject'
  | 'undo'
  | 'listChampions'
>;

/** A job to start: the RPC and its request. */
export type StartRequest = {
  [Name in JobRpcName]: { readonly method: Name; readonly request: RpcRequestInit<Name> };
}[JobRpcName];

/** A kernel folder whose every saved version is run. */
export interface WatchFolder {
  readonly folder: string;
  readonly requestFor: (kernel: KernelReference) => StartRequest;
}
