import { IDLE } from '../remote/hidden-commands.ts';
import { Instance } from '../remote/instance.ts';
import { leaveProcess } from '../remote/leave-process.ts';
import type { Hooks } from '../remote/hooks.ts';

/** Of a runner whose host can be started and stopped. */
interface Watched {
  /** As the hooks name it. */
  readonly runner: string;
  readonly hooks: Hooks;
  readonly environment: NodeJS.ProcessEnv;
  readonly startRunner: boolean;
}

/** Leaves a process behind that stops an idle host, unless there is one, or nothing is to be stopped. */
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
