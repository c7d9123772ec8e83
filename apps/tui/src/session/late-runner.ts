/** A runner that is still being connected to. Calls wait until the connection exists. */
import type { Block } from '../present/blocks.ts';
import type { ShownRunner } from '../state/app-state.ts';
import type { RunnerPort } from './runner-port.ts';

/** A connected runner. Its owner closes it. */
export interface OpenedRunner {
  readonly client: RunnerPort;
  readonly runner: ShownRunner;
  /** The key under which the user's view is saved. */
  readonly address: string;
  /** Restarts an embedded runner that was killed. Returns its new label. */
  readonly revive?: (() => Promise<string | void>) | undefined;
  /** Copies a kernel to a new folder; absent in a replay. */
  readonly newKernel?: (name: string, from: string) => Promise<string>;
  /** The lab log of the jobs since a time, in milliseconds since 1970; absent in a replay. */
  readonly labLog?: (since: number) => Promise<readonly Block[]>;
}

/** While connecting, `signal` aborts if the user leaves, and `notify` shows messages. */
export interface Opening {
  readonly signal: AbortSignal;
  readonly notify: (text: string) => void;
}

/** A runner that can be called before it is connected. If connecting fails, every call fails with that error. */
export function lateRunner(opening: Promise<Pick<OpenedRunner, 'client'>>): RunnerPort {
  const streams: Pick<RunnerPort, 'start' | 'watch'> = {
    async *start(...given) {
      yield* (await opening).client.start(...given);
    },
    async *watch(...given) {
      yield* (await opening).client.watch(...given);
    },
  };
  // All other properties are calls with one answer.
  return new Proxy(streams as RunnerPort, {
    get: (_, name): unknown =>
      Reflect.get(streams, name) ??
      (async (...given: never[]) => {
        const { client } = await opening;
        return (client[name as keyof RunnerPort] as (...given: never[]) => unknown).apply(client, given);
      }),
  });
}
