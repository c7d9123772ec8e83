/**
 * The process that watches a host for idleness after the last client has left. It runs in the background and ends by
 * itself.
 */
import { appendFileSync } from 'node:fs';
import { watchIdle } from '../connection/idle-watch.ts';
import { Instance } from '../remote/instance.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';

/** `fa-tui __idle <runner>`: watches until it has stopped the host or failed to. */
export async function idleWatch(runner: string, context: CommandContext): Promise<ExitCode> {
  const hosted = context.hosted(runner);
  const { stop, stopAfterIdleMinutes } = hosted?.hooks ?? {};
  if (!hosted || !stop || stopAfterIdleMinutes === undefined) return ExitCode.PASSED;
  const instance = new Instance(hosted.runner, hosted.environment);
  const log = (text: string): void =>
    appendFileSync(instance.logFile, `${new Date().toISOString()} ${text}\n`, { mode: 0o600 });
  await watchIdle({ ...hosted, hooks: { ...hosted.hooks, stop, stopAfterIdleMinutes }, log });
  return ExitCode.PASSED;
}
