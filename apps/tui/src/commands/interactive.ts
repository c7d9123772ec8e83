import { create } from '@bufbuild/protobuf';
import { KernelReferenceSchema } from '@flashcore/shared/contract';
import type { Appearance } from '../settings/settings.ts';
import { type JobCommandOptions, comeBack } from './options.ts';
import type { StartRequest, WatchFolder } from '../session/runner-port.ts';
import type { ListedProblem } from '../present/sections/problem.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import type { Connection } from '../connection/connect.ts';
import { exampleKernels } from '../connection/data-directory.ts';
import type { OpenedRunner, Opening } from '../session/late-runner.ts';
import type { CommandContext } from './context.ts';
import { championById, plannedRequest, startJob } from './start-job.ts';
import { ExitCode } from '../exit-code.ts';

/** The kernel that `npm start` runs: it passes its gates and uses tensor cores. */
const DEFAULT_KERNEL = 'fa_v2_wmma';

/**
 * True if a person is at the terminal. The terminal program needs both stdin and stdout, and a terminal that is not
 * dumb.
 */
export const isInteractive = ({ surroundings: { stdin, stdout, environment } }: CommandContext): boolean =>
  stdin.isTTY === true && stdout.isTTY === true && environment.TERM !== 'dumb';

/** True if the options request a file about a single job: --record, --junit or --save. */
export const wantsFiles = ({ record, junit, save }: Pick<JobCommandOptions, 'record' | 'junit' | 'save'>): boolean =>
  record !== undefined || junit !== undefined || save !== undefined;

/**
 * `fa-tui start`: runs the default experiment. In a terminal the program opens and shows it; otherwise its report is
 * printed.
 */
export async function startDefault(options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  if (!isInteractive(context) || wantsFiles(options)) return startJob('run', DEFAULT_KERNEL, options, context);
  const kernel = create(KernelReferenceSchema, { source: { case: 'kernelId', value: DEFAULT_KERNEL } });
  return openTui(context, { start: plannedRequest('run', options)(kernel, await championById(options)) });
}

/**
 * The appearance and behavior of the terminal program, from the command line or else from the settings file. Errors:
 * UsageError.
 */
export function appearanceOf(context: CommandContext): Appearance {
  const { ascii, inline, mouse, color } = context.options;
  const settings = context.settings();
  return {
    theme: {
      colors: color === 'never' ? 'none' : settings.colors,
      ascii: ascii ?? settings.ascii,
      background: settings.background,
      styles: settings.theme,
    },
    // A screen reader needs lines as they arrive rather than a full screen.
    inline: inline ?? settings.inline ?? context.surroundings.environment.INK_SCREEN_READER === 'true',
    mouse: mouse ?? settings.mouse ?? false,
    restoreView: settings.restore_view ?? true,
    endNotice: settings.end_notice ?? 'bell',
    editor: settings.editor,
    keys: settings.keys,
  };
}

interface OpenTuiOptions {
  readonly start?: StartRequest;
  readonly watchFolder?: WatchFolder;
}

// Loads this code only when view 7 first shows the problems.
const readProblems = async (): Promise<readonly ListedProblem[]> =>
  (await import('./problem-kernels.ts')).listedProblems();

/** `fa-tui` in a terminal, opened on a job that it starts or on a folder that it watches. */
export async function openTui(context: CommandContext, begin: OpenTuiOptions = {}): Promise<ExitCode> {
  const appearance = appearanceOf(context);
  const folders = new OwnKernels(context.surroundings.environment, exampleKernels());
  const more = {
    ...begin,
    appearance,
    folders,
    problems: readProblems,
    comeBack: (jobs: readonly string[]) => comeBack(jobs, context.options),
  };
  const expected = appearance.inline ? undefined : context.expectedRunner();
  const { runTui } = await import('../run-tui.tsx');
  if (expected === undefined)
    return context.withStartedRunner(async (connection) => {
      const runner = openedRunner(connection, folders);
      await runTui({ ...more, expected: runner, open: () => Promise.resolve(runner) });
      return ExitCode.PASSED;
    });
  const { address, ...runner } = expected;
  let close = (): void => undefined;
  try {
    const open = async (opening: Opening): Promise<OpenedRunner> => {
      const connection = await context.reach(opening);
      ({ close } = connection);
      return openedRunner(connection, folders);
    };
    await runTui({ ...more, expected: { runner, address }, open });
    return ExitCode.PASSED;
  } finally {
    close();
  }
}

const openedRunner = (
  { client, kind, description, address, instance, revive }: Connection,
  folders: OwnKernels,
): OpenedRunner => ({
  client,
  newKernel: async (name, from) => {
    const { copyTo } = await import('./new-kernel.ts');
    const folder = await copyTo(name, from, client);
    folders.remember(folder);
    return folder;
  },
  // Loads this code only when the lab log is first shown.
  labLog: async (since) => {
    const [{ readLabLog }, { RunnerSource }] = await Promise.all([
      import('../handover/lab-log.ts'),
      import('../handover/sources.ts'),
    ]);
    return (await readLabLog(new RunnerSource(client), { since: since / 1000 })).blocks;
  },
  runner: { label: description, embedded: kind === 'embedded', instance },
  address,
  revive,
});
