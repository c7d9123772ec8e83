import { randomUUID } from 'node:crypto';
import path from 'node:path';
import type { KernelReference } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import type { JobCommandOptions } from './options.ts';
import { cancelRequest, followSource, isFolder } from '../watch/follow-source.ts';
import type { CommandContext } from './context.ts';
import { isInteractive, openTui, wantsFiles } from './interactive.ts';
import { followJob, type OutputFiles, onInterrupt } from './follow-job.ts';
import { requireOutputs } from '../named-files.ts';
import { reportError } from './report-error.ts';
import { kernelFolderNamed } from './kernel-argument.ts';
import { championById, plannedRequest, withPlan } from './start-job.ts';
import { quickRequest, type StartRequest, type WatchFolder } from '../session/runner-port.ts';
import { WATCH_LABEL } from '../state/selectors.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/**
 * `fa-tui watch-source <folder>`: runs the experiment again after every save, until Ctrl-C. In a terminal the program
 * opens on the folder.
 */
export async function watchSource(
  folderText: string,
  given: JobCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const options = withPlan(given, context);
  const folder = kernelFolderNamed(folderText) ?? path.resolve(folderText);
  if (!isFolder(folder)) throw new UsageError(`${folder} is not a folder: give one with a kernel.yaml`);
  requireOutputs(options);
  // Reports all mistakes in the options before a runner is contacted. Each version needs a new request, because a
  // request id may name only one job.
  plannedRequest('run', options);
  const champion = await championById(options);
  const labelled = { ...options, label: [...(options.label ?? []), `${WATCH_LABEL}=${randomUUID()}`] };
  const requestFor = (kernel: KernelReference) => plannedRequest('run', labelled)(kernel, champion);
  if (isInteractive(context) && !options.json && !wantsFiles(options))
    return openTui(context, { watchFolder: { folder, requestFor, quick: options.quick } });
  return context.withStartedRunner((connection) =>
    watchPlainly({ folder, requestFor, quick: options.quick }, { connection, context, files: options }),
  );
}

interface PlainWatch {
  connection: Connection;
  context: CommandContext;
  files: OutputFiles;
}

async function watchPlainly(
  { folder, requestFor, quick = false }: WatchFolder,
  { connection, context, files }: PlainWatch,
): Promise<ExitCode> {
  const { client } = connection;
  const interrupts = onInterrupt(() => false);
  const runOne = async ({ method, request }: StartRequest, signal: AbortSignal): Promise<ExitCode> => {
    try {
      return await followJob(
        (watch) => client.start(method, request, { ...watch, signal }),
        connection,
        context,
        files,
      );
    } catch (error) {
      if (!signal.aborted) throw error;
      context.note('superseded by a newer version');
      await cancelRequest(client, request.options?.requestId ?? '');
      return ExitCode.INTERRUPTED;
    }
  };
  const run = async (kernel: KernelReference, signal: AbortSignal): Promise<void> => {
    context.note(`watching ${folder}: this version runs`);
    // The whole experiment runs only if the smallest case has passed.
    const isWorth = !quick || (await runOne(quickRequest(kernel), signal)) === ExitCode.PASSED;
    if (isWorth) await runOne(requestFor(kernel), signal);
    if (!signal.aborted) context.note(`watching ${folder}: save a file and it runs again, Ctrl-C ends`);
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
