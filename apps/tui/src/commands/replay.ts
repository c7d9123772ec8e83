import path from 'node:path';
import { existsSync, statSync } from 'node:fs';
import type { JobCommandOptions } from './options.ts';
import { readRecording } from '../record/recording.ts';
import { replayRunner } from '../record/replay-runner.ts';
import type { CommandContext } from './context.ts';
import { appearanceOf, isInteractive, wantsFiles } from './interactive.ts';
import { followJob } from './follow-job.ts';
import { requireOutputs } from '../named-files.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/**
 * `fa-tui replay <file>`: replays a recorded job without a runner. In a terminal the screen shows the job; elsewhere
 * progress and report are printed.
 */
export async function replay(
  fileText: string,
  options: JobCommandOptions & { readonly speed?: string },
  context: CommandContext,
): Promise<ExitCode> {
  const file = path.resolve(fileText);
  if (!existsSync(file)) throw new UsageError(`${file} does not exist: give a recording made with --record`);
  if (statSync(file).isDirectory()) throw new UsageError(`${file} is a folder: give a recording made with --record`);
  requireOutputs(options);
  const speed = Number(options.speed ?? '1');
  if (!(speed >= 0 && speed <= 10_000))
    throw new UsageError(`--speed ${options.speed}: must be a number from 0 (without pauses) to 10000`);
  const events = readRecording(file);
  const client = replayRunner(events, { speed });
  if (isInteractive(context) && !options.json && !wantsFiles(options)) {
    const { runTui } = await import('../run-tui.tsx');
    const runner = { client, runner: { label: `recording ${path.basename(file)}`, embedded: false }, address: '' };
    await runTui({
      expected: runner,
      open: () => Promise.resolve(runner),
      appearance: { ...appearanceOf(context), restoreView: false },
      watchJob: events[0]?.job,
    });
    return ExitCode.PASSED;
  }
  return followJob((watch) => client.watch(events[0]?.job ?? '', watch), { client }, context, options);
}
