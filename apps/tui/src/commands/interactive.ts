import { create } from '@bufbuild/protobuf';
import { KernelReferenceSchema } from '@flashcore/shared/contract';
import type { JobCommandOptions } from './options.ts';
import type { StartRequest, WatchFolder } from '../session/runner-port.ts';
import type { Appearance } from '../settings/appearance.ts';
import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-code.ts';
import { comeBack } from './come-back.ts';
import { championById, plannedRequest, startJob } from './start-job.ts';

/** What `npm start` runs: a kernel that passes its gates and shows tensor cores at work. */
export const DEFAULT_KERNEL = 'fa_v2_wmma';

/** Whether a person sits before it: the terminal program needs both ends, and more than a
 * dumb terminal. */
export const isInteractive = ({ surroundings: { stdin, stdout, environment } }: CommandContext): boolean =>
  stdin.isTTY === true && stdout.isTTY === true && environment.TERM !== 'dumb';

/** --record, --junit and --save belong to one job, followed to its end. */
export const wantsFiles = ({ record, junit, save }: Pick<JobCommandOptions, 'record' | 'junit' | 'save'>): boolean =>
  record !== undefined || junit !== undefined || save !== undefined;

/** `fa-tui start`: the default experiment; in a terminal the program opens on it, elsewhere its report is printed. */
export async function startDefault(options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  if (!isInteractive(context) || wantsFiles(options)) return startJob('run', DEFAULT_KERNEL, options, context);
  const kernel = create(KernelReferenceSchema, { source: { case: 'kernelId', value: DEFAULT_KERNEL } });
  return openTui(context, { start: plannedRequest('run', options)(kernel, await championById(options)) });
}

/**
 * How the terminal program looks and behaves: what the command line asks for, else the settings file. Errors:
 * UsageError.
 */
export function appearanceOf(context: CommandContext): Appearance {
  const { ascii, inline, mouse, color } = context.options;
  const settings = context.settings();
  return {
    theme: {
      colors: color === 'never' ? 'none' : settings.colors,
      ascii: ascii ?? settings.ascii,
      styles: settings.theme,
    },
    // A screen reader reads lines as they come, not a screen of boxes.
    inline: inline ?? settings.inline ?? context.surroundings.environment.INK_SCREEN_READER === 'true',
    mouse: mouse ?? settings.mouse ?? false,
    restoreView: settings.restore_view ?? true,
    endNotice: settings.end_notice ?? 'bell',
    editor: settings.editor,
  };
}

/** `fa-tui` in a terminal; on the job that it starts, on the folder that it watches. */
export function openTui(
  context: CommandContext,
  begin: { readonly start?: StartRequest; readonly watchFolder?: WatchFolder } = {},
): Promise<ExitCode> {
  const appearance = appearanceOf(context);
  return context.withStartedRunner(async ({ client, kind, address, description, revive, instance }) => {
    const { runTui } = await import('../run-tui.tsx');
    const code = await runTui({
      client,
      connection: { label: description, embedded: kind === 'embedded', address, instance },
      revive,
      appearance,
      comeBack: (job) => comeBack(job, context.options),
      ...begin,
    });
    return code as ExitCode;
  });
}
