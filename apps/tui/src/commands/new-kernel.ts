import { existsSync } from 'node:fs';
import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  MANIFEST_FILE,
  TO_FILL_IN,
  copiedKernel,
  draftFiles,
  installedProblems,
  mayBeSource,
  originalsOfPtx,
  readSourceFile,
} from '@flashcore/shared/kernels';
import { entryOf, setEntry, shellWord } from '@flashcore/shared/text';
import { sanitize } from '../present/cells/cell-text.ts';
import { readSource, requireKernelPath, writeSource } from '../search/kernel-source.ts';
import { UsageError } from '../usage-error.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { parseKernelArgument } from './kernel-argument.ts';
import { idOfFolder, makeFolder, requireFree } from './new-folder.ts';
import { rememberFolder } from './start-job.ts';

/** The ladder's first step: attention in a single file, without tensor cores and other files. */
export const FIRST_KERNEL = 'fa_v1_baseline';

interface NewKernelOptions {
  readonly from?: string;
  /** A file of PTX. */
  readonly fromPtx?: string;
  /** The problem that the PTX computes. */
  readonly problem?: string;
}

/** `fa-tui new <name> [--from <kernel or folder>]`: a kernel folder to start from. Existing files stay unchanged. */
export async function newKernel(name: string, options: NewKernelOptions, context: CommandContext): Promise<ExitCode> {
  const { from: given, fromPtx, problem } = options;
  const folder = path.resolve(name);
  const id = idOfFolder(folder, name);
  requireFree(folder);
  if (fromPtx !== undefined && given !== undefined) throw new UsageError('--from and --from-ptx: give one of them');
  if (problem !== undefined && fromPtx === undefined)
    throw new UsageError('--problem: goes with --from-ptx; a copy computes what its original does');
  if (fromPtx !== undefined) return newFromPtx(fromPtx, { id, folder, problem }, context);
  const from = given ?? FIRST_KERNEL;
  // By default the runner's own kernel, even if the repository has a folder with that name.
  const original = given === undefined ? ({ kind: 'id', id: from } as const) : await parseKernelArgument(given);
  const files = await context.withRunner(async ({ client }) => {
    await refuseKnown(id, client);
    return copiedKernel(await readSource(original, client), id);
  });
  Object.keys(files).forEach(requireKernelPath);
  makeFolder(folder);
  writeSource(folder, files);
  rememberFolder(folder, context);
  if (context.options.json) context.document({ kernel: id, folder, from: original.id, files: Object.keys(files) });
  else context.report(whatNext({ id, folder, from: original.id, files: Object.keys(files) }));
  return ExitCode.PASSED;
}

interface NewFolder {
  readonly id: string;
  readonly folder: string;
  readonly problem: string | undefined;
}

/**
 * `fa-tui new <name> --from-ptx <file>`: writes a manifest from the code, with marks for values that only a person
 * knows.
 */
async function newFromPtx(
  file: string,
  { id, folder, problem }: NewFolder,
  context: CommandContext,
): Promise<ExitCode> {
  if (problem !== undefined && !installedProblems().includes(problem))
    throw new UsageError(`--problem ${problem}: must be one of ${installedProblems().join(', ')}`);
  const source = path.basename(file);
  if (!/^[\w][\w.-]{0,100}\.ptx$/.test(source))
    throw new UsageError(`--from-ptx ${file}: must be a file named *.ptx, of letters, digits, "_", "-" and "."`);
  const beside = path.dirname(path.resolve(file));
  if (!existsSync(file)) throw new UsageError(`--from-ptx ${file}: there is no such file`);
  // Somebody else may have made the folder, so a link in it must not lead to a key.
  const read = async (each: string): Promise<string> => (await readSourceFile(beside, each)).toString('utf8');
  const ptx = await read(source);
  await context.withRunner(({ client }) => refuseKnown(id, client));
  const files: Record<string, string> = draftFiles(ptx, { id, source, problem });
  for (const name of originalsOfPtx(ptx))
    if (/^[\w][\w.-]{0,100}$/.test(name) && mayBeSource(name) && entryOf(files, name) === undefined)
      if (existsSync(path.join(beside, name))) setEntry(files, name, await read(name));
  makeFolder(folder);
  writeSource(folder, files);
  rememberFolder(folder, context);
  const manifest = path.join(folder, MANIFEST_FILE);
  if (context.options.json) context.document({ kernel: id, folder, files: Object.keys(files) });
  else
    context.report([
      `${sanitize(folder)}  ${id}: ${Object.keys(files).toSorted().join(', ')}`,
      '',
      `Fill in what ${sanitize(manifest)} marks with ${TO_FILL_IN}: the grid, and which argument is what. Then:`,
      `  fa-tui verify ${shellWord(folder)}`,
    ]);
  return ExitCode.PASSED;
}

/** Refuses a known id, because two kernels with one id would share history, leaderboard and champions. */
async function refuseKnown(id: string, client: RunnerClient): Promise<void> {
  const { kernels } = await client.listKernels({ includeFaulty: true });
  if (kernels.some(({ kernelId }) => kernelId === id))
    throw new UsageError(`${id} is a kernel of the runner: give another name, so that their results stay apart`);
}

interface MadeKernel {
  readonly id: string;
  readonly folder: string;
  readonly from: string;
  readonly files: readonly string[];
}

function whatNext({ id, folder, from, files }: MadeKernel): string[] {
  const relative = path.relative(process.cwd(), folder);
  const place = shellWord(relative.startsWith('..') ? folder : `./${relative}`);
  const commands = [
    [`fa-tui run ${place}`, 'build, verify, bench, profile, gates'],
    [`fa-tui watch-source ${place}`, 'the same at every save'],
    [`fa-tui bench ${place} --champion ${from}`, `is it faster than ${from}?`],
  ] as const;
  const width = Math.max(...commands.map(([command]) => command.length));
  return [
    `${place}  ${id}, a copy of ${from}: ${files.toSorted().join(', ')}`,
    '',
    'Change the code and say in NOTES.md what you changed. View 7 of fa-tui lists it; in a shell:',
    ...commands.map(([command, about]) => `  ${command.padEnd(width)}  ${about}`),
  ];
}
