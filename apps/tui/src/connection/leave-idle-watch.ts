import { IDLE } from '../remote/hidden-commands.ts';
import { Instance } from '../remote/instance.ts';
import { leaveProcess } from '../remote/leave-process.ts';
import type { Hooks } from '../remote/hooks.ts';

/** A runner whose host can be started and stopped. */
interface Watched {
  /** Name of the runner in the hooks. */
  readonly runner: string;
  readonly hooks: Hooks;
  readonly environment: NodeJS.ProcessEnv;
  readonly startRunner: boolean;
}

/** Starts a background process that stops an idle host, unless one exists or the hooks do not stop the host. */
export function leaveIdleWatch(
  { runner, hooks, environment, startRunner }: Watched,
  note: (text: string) => void,
): void {
  const { stop, stopAfterIdleMinutes } = hooks;
  if (!stop || stopAfterIdleMinutes === undefined) return;
  const instance = new Instance(runner, environment);
  if (instance.isWatched()) return;
  leaveProcess([IDLE, runner, ...(startRunner ? ['--start-runner'] : [])], environment);
  note(
    `host: it is stopped when no job ran for ${stopAfterIdleMinutes} min, by this machine while it is awake; ${instance.logFile}`,
  );
}
