/** The calls that fa-tui makes to a runner. The typed client has all of them; tests replace it with a replayed job. */
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

/** A kernel folder that runs at every save. */
export interface WatchFolder {
  readonly folder: string;
  readonly requestFor: (kernel: KernelReference) => StartRequest;
  /** Run the smallest case first, and the rest only if it passes. */
  readonly quick?: boolean | undefined;
}

/** The smallest of the parity cases. A quick run verifies only this shape, with one seed. */
export const QUICK_SHAPE = '1x4x128x64';

/** A request that builds a kernel and verifies its smallest case. */
export const quickRequest = (kernel: KernelReference): StartRequest => ({
  method: 'verify',
  request: {
    kernel,
    options: { requestId: randomUUID() },
    settings: { shapes: [parseShape(QUICK_SHAPE)], seedCount: 1 },
  },
});
