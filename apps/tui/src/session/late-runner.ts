/** A runner that is still being connected to: what it is asked waits until it is there. */
import type { ShownRunner } from '../state/app-state.ts';
import type { RunnerPort } from './runner-port.ts';

/** A runner that answers. Closing it is its owner's. */
export interface OpenedRunner {
  readonly client: RunnerPort;
  readonly runner: ShownRunner;
  /** What the view is saved under. */
  readonly address: string;
  /** Brings back an embedded runner that was killed. */
  readonly revive?: (() => Promise<void>) | undefined;
}

/** While connecting: `signal` aborts when the user leaves, `notify` shows what there is to know. */
export interface Opening {
  readonly signal: AbortSignal;
  readonly notify: (text: string) => void;
}

type Asked = Exclude<keyof RunnerPort, 'start' | 'watch'>;

/** Errors: that of connecting, of every question. */
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
