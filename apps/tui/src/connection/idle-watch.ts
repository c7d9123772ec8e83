/** Stops a host after an idle time, even if every client has gone. */
import { setTimeout as sleep } from 'node:timers/promises';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { runHook, type Hooks } from '../remote/hooks.ts';
import { Instance } from '../remote/instance.ts';
import { SshError } from '../remote/ssh-problem.ts';
import type { Connection } from './connect.ts';

export interface IdleWatch {
  readonly runner: string;
  readonly hooks: Hooks & { readonly stop: readonly string[]; readonly stopAfterIdleMinutes: number };
  readonly environment: NodeJS.ProcessEnv;
  readonly connect: () => Promise<Connection>;
  readonly log: (text: string) => void;
  /** Time between two checks; by default a quarter of the idle time, at most a minute. */
  readonly everyMs?: number;
}

const MAX_PAUSE_MS = 60_000;
/**
 * If the runner can't be reached for this long, the watch ends without stopping the host, because nobody knows whether
 * it is idle.
 */
const UNREACHABLE_LIMIT_MS = 60 * 60_000;
/** If a check took longer than this, the machine slept during the check. */
const MAX_ROUND_MS = 2 * 60_000;
const STOP_ATTEMPTS = 3;

/**
 * Checks the runner regularly. When the idle time has passed since the last job ended or a client last started, runs
 * the stop hook. A failure is stored in the instance's record and shown to the next client. Returns at once if another
 * process is already watching, and soon after this watch was ended or taken over.
 */
export async function watchIdle(watch: IdleWatch): Promise<void> {
  const instance = new Instance(watch.runner, watch.environment);
  if (!instance.takeWatch()) return;
  try {
    watch.log(`watching ${watch.runner}`);
    await stopWhenIdle(watch, instance);
  } finally {
    instance.leaveWatch();
  }
}

async function stopWhenIdle(watch: IdleWatch, instance: Instance): Promise<void> {
  const { runner, hooks, log } = watch;
  const idleMs = hooks.stopAfterIdleMinutes * 60_000;
  const pauseMs = watch.everyMs ?? Math.min(MAX_PAUSE_MS, idleMs / 4);
  let busyAt = Date.now();
  let roundAt = Date.now();
  let unaskedMs = 0;
  for (;;) {
    await sleep(pauseMs);
    const busy = await lastBusy(watch);
    if (!instance.ownsWatch()) return;
    const now = Date.now();
    unaskedMs = busy === undefined ? unaskedMs + Math.min(MAX_ROUND_MS, now - roundAt) : 0;
    roundAt = now;
    if (busy === undefined) {
      if (unaskedMs < UNREACHABLE_LIMIT_MS) continue;
      return giveUp(
        instance,
        log,
        `${runner} could not be asked for an hour, and was not stopped: if it still runs, it costs (fa-tui host stop ${runner})`,
      );
    }
    busyAt = Math.max(busyAt, busy, instance.lastUsed());
    if (now - busyAt >= idleMs) break;
  }
  log(`idle for ${hooks.stopAfterIdleMinutes} min: stopping ${runner}`);
  await stopHost(watch, instance);
}

/** The time of the last job; undefined if the runner did not answer. */
async function lastBusy({ connect, log }: IdleWatch): Promise<number | undefined> {
  let connection: Connection | undefined;
  try {
    connection = await connect();
    const { host } = await connection.client.getHost();
    if ((host?.activeJobs ?? 0) > 0) return Date.now();
    const { jobs } = await connection.client.listJobs({ pageSize: 1 });
    return Math.max(0, ...jobs.map(({ endTime }) => (endTime ? timestampMs(endTime) : 0)));
  } catch (error) {
    // Without a runner there are no jobs, so the time of the last one is 0.
    if (error instanceof SshError && error.standing === 'no-runner') return 0;
    log(`could not ask: ${(error as Error).message}`);
    return undefined;
  } finally {
    connection?.close();
  }
}

async function stopHost({ runner, hooks, environment, log, everyMs }: IdleWatch, instance: Instance): Promise<void> {
  for (let attempt = 1; ; ++attempt) {
    try {
      await runHook({ what: 'stop', runner, command: hooks.stop, hooks, environment });
      instance.forget();
      log('stopped');
      return;
    } catch (error) {
      const { message } = error as Error;
      log(message);
      if (!instance.ownsWatch()) return;
      if (attempt === STOP_ATTEMPTS)
        return giveUp(instance, log, `${runner} could not be stopped and still costs money: ${message}`);
    }
    await sleep(everyMs ?? MAX_PAUSE_MS);
    if (!instance.ownsWatch()) return;
  }
}

function giveUp(instance: Instance, log: (text: string) => void, problem: string): void {
  log(problem);
  instance.write({ ...instance.read(), problem: problem.slice(0, 2_000) });
}
