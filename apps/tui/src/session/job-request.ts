import type { JobRpcName, RpcRequestInit } from '@flashcore/shared/client';
import type { StartRequest } from './runner-port.ts';

/** The actions that start a job, in the words of the command line. */
export const JOB_ACTIONS = ['run', 'build', 'verify', 'bench', 'profile'] as const;
export type JobAction = (typeof JOB_ACTIONS)[number];

/** A request as plain fields rather than as a message. */
type Fields<Name extends JobRpcName> = Extract<RpcRequestInit<Name>, { readonly $typeName?: undefined }>;
type Experiment = Fields<'runExperiment'>;

/** The parts of a job's request. Each kind of job uses those that it has. */
export interface JobParts {
  readonly common: Fields<'build'>;
  readonly verify?: Experiment['verify'];
  readonly benchmark?: Experiment['benchmark'];
  readonly profile?: Experiment['profile'];
  /** Only for a whole experiment. */
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
