/** The calls that fa-tui makes to a runner. The typed client implements them; tests use a replayed job instead. */
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

/** The RPC that starts a job, and its request. */
export type StartRequest = {
  [Name in JobRpcName]: { readonly method: Name; readonly request: RpcRequestInit<Name> };
}[JobRpcName];

/** A kernel folder that is run after every save. */
export interface WatchFolder {
  readonly folder: string;
  readonly requestFor: (kernel: KernelReference) => StartRequest;
  /** True to run the smallest case first, and the rest only if it passes. */
  readonly quick?: boolean | undefined;
}

/** The smallest of the parity cases. A quick run verifies only this shape, with one seed. */
const QUICK_SHAPE = '1x4x128x64';

/** A request that builds a kernel and verifies its smallest case. */
export const quickRequest = (kernel: KernelReference): StartRequest => ({
  method: 'verify',
  request: {
    kernel,
    options: { requestId: randomUUID() },
    settings: { shapes: [parseShape(QUICK_SHAPE)], seedCount: 1 },
  },
});

/** The actions that start a job, in the words of the command line. */
export const JOB_ACTIONS = ['run', 'build', 'verify', 'bench', 'profile'] as const;
export type JobAction = (typeof JOB_ACTIONS)[number];

/** A request as plain fields instead of a message. */
type Fields<Name extends JobRpcName> = Extract<RpcRequestInit<Name>, { readonly $typeName?: undefined }>;
type Experiment = Fields<'runExperiment'>;

/** The parts of a job's request. Each kind of job uses only some of them. */
interface JobParts {
  readonly common: Fields<'build'>;
  readonly verify?: Experiment['verify'];
  readonly benchmark?: Experiment['benchmark'];
  readonly profile?: Experiment['profile'];
  /** Only for an experiment. */
  readonly experiment?: Pick<Experiment, 'plan' | 'gatesYaml' | 'noFallback' | 'noChampion' | 'heldOut'>;
}

/** Makes the request for an action and its settings. All requests are made here. */
export function jobRequest(action: JobAction, parts: JobParts): StartRequest {
  const { common, verify = {}, benchmark = {}, profile, experiment } = parts;
  switch (action) {
    case 'build':
      return { method: 'build', request: common };
    case 'verify':
      return { method: 'verify', request: { ...common, settings: verify } };
    case 'bench':
      return { method: 'benchmark', request: { ...common, settings: benchmark } };
    case 'profile':
      return { method: 'profile', request: { ...common, settings: profile ?? {} } };
    case 'run':
      return {
        method: 'runExperiment',
        request: { ...common, verify, benchmark, ...(profile && { profile }), ...experiment },
      };
  }
}
