import type { RunnerClient } from '@flashcore/shared';
import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-code.ts';
import type { JobCommandOptions } from '../options.ts';
import { kernelReference } from './kernel-argument.ts';
import { compileStart, startJob } from './start-job.ts';

/** What `npm start` runs: a kernel that passes its gates and shows tensor cores at work. */
export const DEFAULT_KERNEL = 'fa_v2_wmma';

/** Whether a person sits before it: the terminal program needs both ends. */
export const isInteractive = ({ surroundings: { stdin, stdout } }: CommandContext): boolean => stdin.isTTY === true && stdout.isTTY === true;

/** `fa-tui` in a terminal. */
export function openTui(context: CommandContext): Promise<ExitCode> {
  return show(context);
}

/** `fa-tui start`: the default experiment; in a terminal the program opens on it, elsewhere its report is printed. */
export async function startDefault(options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  if (!isInteractive(context)) return startJob('run', DEFAULT_KERNEL, options, context);
  const start = compileStart('run', options);
  return show(context, async (client) => {
    const kernel = await kernelReference({ kind: 'id', id: DEFAULT_KERNEL }, client);
    for await (const { job } of start(client, kernel)({})) return job;
    return undefined;
  });
}

type StartJob = (client: RunnerClient) => Promise<string | undefined>;

async function show(context: CommandContext, start?: StartJob): Promise<ExitCode> {
  const connection = await context.connect();
  try {
    const initialJob = await start?.(connection.client);
    const { runTui } = await import('../app.tsx');
    const code = await runTui({ client: connection.client, connection, ...(initialJob !== undefined && { initialJob }) });
    return code as ExitCode;
  } finally {
    connection.client.close();
  }
}
