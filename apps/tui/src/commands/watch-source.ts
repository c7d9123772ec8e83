import path from 'node:path';
import type { KernelReference } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import type { JobCommandOptions } from './options.ts';
import { cancelRequest, followSource, isFolder } from '../watch/follow-source.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { UsageError } from '../usage-error.ts';
import { isInteractive, openTui, wantsFiles } from './interactive.ts';
import { onInterrupt } from './interrupt.ts';
import { followJob, type OutputFiles } from './job-command.ts';
import { requireOutputs } from '../named-files.ts';
import { reportError } from './report-error.ts';
import { championById, plannedRequest } from './start-job.ts';

/**
 * `fa-tui watch-source <folder>`: the experiment again at every save, until Ctrl-C; in a terminal the program opens on
 * it.
 */
export async function watchSource(
  folderText: string,
  options: JobCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const folder = path.resolve(folderText);
  if (!isFolder(folder)) throw new UsageError(`Wanted a kernel folder to watch; ${folder} is none`);
  requireOutputs(options);
  // All that can be wrong with the options shows before a runner is asked. A request is made anew for each version:
  // its id may name one job only.
  plannedRequest('run', options);
  const champion = await championById(options);
  const requestFor = (kernel: KernelReference) => plannedRequest('run', options)(kernel, champion);
  if (isInteractive(context) && !options.json && !wantsFiles(options))
    return openTui(context, { watchFolder: { folder, requestFor } });
  return context.withRunner((connection) => watchPlainly(folder, requestFor, { connection, context, files: options }));
}

interface PlainWatch {
  connection: Connection;
  context: CommandContext;
  files: OutputFiles;
}

async function watchPlainly(
  folder: string,
  requestFor: (kernel: KernelReference) => ReturnType<ReturnType<typeof plannedRequest>>,
  { connection, context, files }: PlainWatch,
): Promise<ExitCode> {
  const { client } = connection;
  const interrupts = onInterrupt(() => false);
  const run = async (kernel: KernelReference, signal: AbortSignal): Promise<void> => {
    const { method, request } = requestFor(kernel);
    context.note(`watching ${folder}: this version runs`);
    try {
      await followJob((watch) => client.start(method, request, { ...watch, signal }), connection, context, files);
      context.note(`watching ${folder}: save a file and it runs again, Ctrl-C ends`);
    } catch (error) {
      if (!signal.aborted) throw error;
      context.note('superseded by a newer version');
      await cancelRequest(client, request.options?.requestId ?? '');
    }
  };
  try {
    await followSource({
      folder,
      upload: (from) => client.uploadFolder(from),
      run,
      onProblem: (error) => void reportError(error, context),
      signal: new AbortController().signal,
    });
  } finally {
    interrupts.dispose();
  }
  return ExitCode.PASSED;
}
