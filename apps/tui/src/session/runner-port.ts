/** What fa-tui asks of a runner: the typed client has it all; tests put a replay of a job in its place. */
import { randomUUID } from 'node:crypto';
import type { JobRpcName, RpcRequestInit, RunnerClient } from '@flashcore/shared/client';
import { type KernelReference } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';

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
  /** Tries the smallest case first, and the rest only where that passes. */
  readonly quick?: boolean | undefined;
}

/** The smallest of the parity cases: what a quick look verifies, with one seed. */
export const QUICK_SHAPE = '1x4x128x64';

/** Build and smallest case of a kernel. */
export const quickRequest = (kernel: KernelReference): StartRequest => ({
  method: 'verify',
  request: {
    kernel,
    options: { requestId: randomUUID() },
    settings: { shapes: [parseShape(QUICK_SHAPE)], seedCount: 1 },
  },
});
