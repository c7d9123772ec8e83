import { lstatSync, readdirSync, realpathSync, rmdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { configFolder, isDataFolder, isOwnData, stateFolder } from '@flashcore/shared/files';
import { dataDirectory, runnerProgram } from '../connection/data-directory.ts';
import { endRunner, idleRunner } from '../connection/embedded-runner.ts';
import { runRunnerCommand } from '../connection/runner-launch.ts';
import { notice, tableOf, type Block } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { counted, formatBytes } from '../present/numbers.ts';
import { Instance } from '../remote/instance.ts';
import type { CommandContext } from './context.ts';
import { firstLine } from './hidden-input.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface UninstallOptions {
  readonly purge?: boolean;
  readonly yes?: boolean;
}

/** A file or folder that flashcore created for this user. */
interface Stored {
  readonly path: string;
  readonly bytes: number;
}

/**
 * `fa-tui uninstall`: explains how to remove the program, and lists the data that it stored for this user. --purge
 * removes that data.
 */
export async function uninstall({ purge, yes }: UninstallOptions, context: CommandContext): Promise<ExitCode> {
  const { surroundings, options } = context;
  if (yes && !purge) throw new UsageError('--yes: needs --purge');
  const folders = foldersOf(surroundings.environment);
  const stored = storedIn(folders);
  if (!purge) {
    if (options.json) context.document({ program: howToRemove(), stored });
    else context.show([...listOf(stored), notice(`The program itself: ${howToRemove()}`)]);
    return ExitCode.PASSED;
  }
  refuseWhileHostsCost(context);
  await idleRunner(folders.data);
  if (!yes) await confirm(stored, context);
  // Checked again, because the runner may have received a job while the question was open.
  const pid = await idleRunner(folders.data);
  if (pid !== undefined) await endRunner(pid);
  // The data folder comes first, because purgeData() checks the runner's lock before anything is removed.
  if (isDataFolder(folders.data)) await purgeData(folders.data, surroundings.environment);
  for (const folder of [folders.config, folders.state]) {
    rmSync(folder, { recursive: true, force: true });
    // If $FLASHCORE_HOME is set, the parent folder is inside the data folder.
    if (path.dirname(path.dirname(folder)) === folders.data) removeIfEmpty(path.dirname(folder));
  }
  removeIfEmpty(folders.data);
  const kept = isDirectory(folders.data) ? readdirSync(folders.data) : [];
  if (options.json) context.document({ program: howToRemove(), removed: stored, kept });
  else
    context.report([
      `removed ${counted(stored.length, 'item')}, ${formatBytes(stored.reduce((sum, { bytes }) => sum + bytes, 0))}`,
      ...(kept.length === 0
        ? []
        : [`not flashcore's, so kept in ${sanitize(folders.data)}: ${kept.map(sanitize).join(', ')}`]),
      `The program itself: ${howToRemove()}`,
    ]);
  return ExitCode.PASSED;
}

interface Folders {
  readonly data: string;
  readonly config: string;
  readonly state: string;
}

const foldersOf = (environment: NodeJS.ProcessEnv): Folders => ({
  data: dataDirectory(environment),
  config: path.resolve(configFolder(environment)),
  state: path.resolve(stateFolder(environment)),
});

/** Files and folders that flashcore created. The user's own files in the data folder are left out. */
function storedIn({ data, config, state }: Folders): Stored[] {
  const own = isDataFolder(data) ? readdirSync(data).filter(isOwnData) : [];
  return [...own.map((name) => path.join(data, name)), config, state]
    .filter((file) => lstatSync(file, { throwIfNoEntry: false }))
    .map((file) => ({ path: file, bytes: bytesOf(file) }));
}

/** Size in bytes. For a link it is the size of the link, because only the link is removed. */
function bytesOf(file: string): number {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found?.size ?? 0;
  return readdirSync(file).reduce((sum, name) => sum + bytesOf(path.join(file, name)), 0);
}

const listOf = (stored: readonly Stored[]): Block[] =>
  stored.length === 0
    ? [notice('nothing of flashcore is stored for this user')]
    : [
        tableOf(
          [
            { title: 'stored for this user', cell: (each: Stored) => sanitize(each.path) },
            { title: 'size', align: 'right', cell: ({ bytes }) => formatBytes(bytes) },
          ],
          stored,
        ),
      ];

/**
 * Refuses to remove the state folder while a host runs, because the folder records that the host was started and since
 * when it costs money.
 */
function refuseWhileHostsCost(context: CommandContext): void {
  const { environment } = context.surroundings;
  const running = Object.keys(context.settings().hooks ?? {}).find(
    (runner) => new Instance(runner, environment).read().startedAt !== undefined,
  );
  if (running !== undefined)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { runner: running },
      `${running} was started from here and may still cost: stop it first (fa-tui host stop ${running})`,
    );
}

/** Asks the user. Errors: UsageError unless the user types yes. */
async function confirm(stored: readonly Stored[], context: CommandContext): Promise<void> {
  const { stdin, stderr } = context.surroundings;
  if (!stdin.isTTY) throw new UsageError('uninstall --purge: must be confirmed, and nobody can be asked: give --yes');
  if (!context.options.json) context.show(listOf(stored));
  stderr.write('Remove all of this? It cannot be restored. Type yes: ');
  if ((await firstLine(stdin)) !== 'yes') throw new UsageError('uninstall --purge: not confirmed, nothing was removed');
}

async function purgeData(directory: string, environment: NodeJS.ProcessEnv): Promise<void> {
  const status = await runRunnerCommand({
    program: runnerProgram(),
    args: ['purge', '--yes', '--data', directory],
    environment,
    // Discards the output, because the result is printed later, after settings and logins are gone too.
    stdout: { write: () => undefined },
  });
  if (status !== 0)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { directory },
      `${directory} was not removed, as flashcore-runner says`,
    );
}

/** Removes a folder if it is empty. If it is a link, for example to a larger disk, removes the link and its target. */
function removeIfEmpty(folder: string): void {
  if (!isDirectory(folder) || readdirSync(folder).length > 0) return;
  const isLink = lstatSync(folder).isSymbolicLink();
  rmdirSync(realpathSync(folder));
  if (isLink) rmSync(folder);
}

const isDirectory = (file: string): boolean => statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;

/** The command that removes the program, which depends on where the program is. */
function howToRemove(): string {
  const [root = ''] = runnerProgram().split(`${path.sep}apps${path.sep}runner${path.sep}`);
  return root.includes(`${path.sep}node_modules${path.sep}`)
    ? 'npm uninstall -g flashcore'
    : `remove the folder ${root}`;
}
