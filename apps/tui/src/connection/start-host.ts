/** Connects to a runner on a host that may be stopped. If the host is stopped, starts it and waits for the runner. */
import { setTimeout as sleep } from 'node:timers/promises';
import { FlashcoreError } from '@flashcore/shared/contract';
import { runHook, shownCommand, type Hooks } from '../remote/hooks.ts';
import { costSoFar, Instance, type InstanceRecord, leaveIdleWatch } from '../remote/instance.ts';
import { SshError } from '../remote/ssh-problem.ts';
import type { Connection } from './connect.ts';

export interface HostedRunner {
  /** Name of the runner in the hooks. */
  readonly runner: string;
  readonly hooks: Hooks;
  readonly environment: NodeJS.ProcessEnv;
  readonly connect: () => Promise<Connection>;
  /** True to start the runner on the host if it is not running. */
  readonly startRunner: boolean;
  /** True if a stopped host may be started, which costs money. */
  readonly mayStart: boolean;
  readonly notify: (message: string) => void;
  readonly signal?: AbortSignal;
}

const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 10_000;
const USE_EVERY_MS = 10_000;
/** Time between two messages while waiting. */
const SAY_EVERY_MS = 15_000;

/**
 * Connects. If the host can't be reached, starts it and waits for the runner. Errors: those of connecting and of the
 * hook.
 */
export async function connectToHost(hosted: HostedRunner): Promise<Connection> {
  const { runner, hooks, environment, connect, mayStart, notify } = hosted;
  const instance = new Instance(runner, environment);
  const { problem } = instance.read();
  if (problem !== undefined) notify(`host: ${problem}`);
  instance.touch();
  try {
    return await connect();
  } catch (error) {
    if (!hooks.start || !isDown(error)) throw error;
    if (!mayStart) throw stopped(runner, error);
    notify(`host: ${runner} can't be reached; starting it${rate(hooks)}: ${shownCommand(hooks.start)}`);
  }
  // The record describes an earlier start of the host.
  instance.forget();
  return startHost(hosted);
}

/**
 * Runs the start hook and waits until the runner answers. The idle watch stops the host later, even if the start fails.
 */
export async function startHost(hosted: HostedRunner): Promise<Connection> {
  const { runner, hooks, environment, notify, signal } = hosted;
  if (!hooks.start)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { runner },
      `${runner} has no start command in its hooks: add it to the settings`,
    );
  const instance = new Instance(runner, environment);
  const since = await upSince(hosted, instance);
  const begin = Date.now();
  // From now on the host may cost money, even if the command fails.
  instance.write({ startedAt: since ?? begin, usdPerHour: hooks.usdPerHour });
  // A client that waits counts as a use of the host, even while no runner is running there.
  instance.touch();
  const use = setInterval(() => instance.touch(), USE_EVERY_MS);
  try {
    leaveIdleWatch(hosted, notify);
    await runHook({ what: 'start', runner, command: hooks.start, hooks, environment, signal });
    notify('host: the start hook is done; waiting for the runner');
    const connection = await awaited(hosted);
    notify(`host: the runner answers, ${seconds(Date.now() - begin)} after the start`);
    return connection;
  } finally {
    clearInterval(use);
  }
}

/** The start time of the host, if it is still running. */
async function upSince({ connect }: HostedRunner, instance: Instance): Promise<number | undefined> {
  const { startedAt } = instance.read();
  if (startedAt === undefined) return undefined;
  try {
    (await connect()).close();
  } catch (error) {
    if (!(error instanceof FlashcoreError)) throw error;
    if (isDown(error)) return undefined;
  }
  return startedAt;
}

/**
 * Tries to connect until the runner answers or an error shows that it will not. A starting host can refuse or ignore
 * connections in many ways.
 */
async function awaited({ runner, hooks, connect, notify, signal }: HostedRunner): Promise<Connection> {
  const begin = Date.now();
  let [pause, saidAt] = [FIRST_PAUSE_MS, begin];
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      if (!mayComeUp(error)) throw error;
      if (Date.now() - begin > hooks.limitMinutes * 60_000)
        throw new FlashcoreError(
          'RUNNER_UNREACHABLE',
          { runner },
          `The runner of ${runner} did not answer within ${hooks.limitMinutes} min of its host's start, which costs: look at it, or stop it (fa-tui host stop ${runner}). ${error.message}`,
          { cause: error },
        );
      if (Date.now() - saidAt > SAY_EVERY_MS) {
        notify(`host: waiting for the runner, ${seconds(Date.now() - begin)} so far: ${error.message}`);
        saidAt = Date.now();
      }
    }
    await sleep(pause, undefined, signal ? { signal } : {});
    pause = Math.min(MAX_PAUSE_MS, pause * 1.5);
  }
}

/** True if the host does not answer. */
const isDown = (error: unknown): error is FlashcoreError =>
  error instanceof SshError ? error.standing === 'down' : isUnreachable(error);

const mayComeUp = (error: unknown): error is FlashcoreError =>
  error instanceof SshError ? error.standing !== undefined : isUnreachable(error);

const isUnreachable = (error: unknown): error is FlashcoreError =>
  error instanceof FlashcoreError && error.reason === 'RUNNER_UNREACHABLE';

const stopped = (runner: string, cause: FlashcoreError): FlashcoreError =>
  new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { runner },
    `${cause.message}; a host that is stopped is started with fa-tui host start ${runner}, and by commands that start a job`,
    { cause },
  );

const rate = ({ usdPerHour }: Hooks): string => (usdPerHour === undefined ? '' : ` at $${usdPerHour} an hour`);
const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;

/** Text such as "up 72 min, about $0.85 so far at $0.71 an hour"; undefined if the host was not started here. */
export function instanceText(record: InstanceRecord, now = Date.now()): string | undefined {
  if (record.startedAt === undefined) return undefined;
  const cost = costSoFar(record, now);
  const minutes = Math.floor((now - record.startedAt) / 60_000);
  return `up ${minutes} min${cost === undefined ? '' : `, about $${cost.toFixed(2)} so far at $${record.usdPerHour} an hour`}`;
}
