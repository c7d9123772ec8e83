/** A runner that is still connecting. Calls to it wait until it is connected. */
import type { ShownRunner } from '../state/app-state.ts';
import type { RunnerPort } from './runner-port.ts';

/** A connected runner. Its owner closes it. */
export interface OpenedRunner {
  readonly client: RunnerPort;
  readonly runner: ShownRunner;
  /** The key under which the view is saved. */
  readonly address: string;
  /** Restarts an embedded runner that was killed. */
  readonly revive?: (() => Promise<void>) | undefined;
}

/** While connecting, `signal` aborts if the user leaves, and `notify` shows messages. */
export interface Opening {
  readonly signal: AbortSignal;
  readonly notify: (text: string) => void;
}

type Asked = Exclude<keyof RunnerPort, 'start' | 'watch'>;

/** Every call fails with the error of connecting, if there is one. */
export function lateRunner(opening: Promise<Pick<OpenedRunner, 'client'>>): RunnerPort {
  const ask = <Name extends Asked>(name: Name): RunnerPort[Name] =>
    (async (...values: never[]) => {
      const { client } = await opening;
      return (client[name] as (...given: never[]) => unknown).apply(client, values);
    }) as RunnerPort[Name];
  return {
    getHost: ask('getHost'),
    listJobs: ask('listJobs'),
    cancelJob: ask('cancelJob'),
    listKernels: ask('listKernels'),
    listExperiments: ask('listExperiments'),
    getLeaderboard: ask('getLeaderboard'),
    readArtifact: ask('readArtifact'),
    uploadFolder: ask('uploadFolder'),
    accept: ask('accept'),
    reject: ask('reject'),
    undo: ask('undo'),
    listChampions: ask('listChampions'),
    async *start(...given) {
      yield* (await opening).client.start(...given);
    },
    async *watch(...given) {
      yield* (await opening).client.watch(...given);
    },
  };
}
