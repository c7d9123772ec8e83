import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  DEFAULT_PROBLEM,
  MANIFEST_FILE,
  TO_FILL_IN,
  copiedKernel,
  draftFiles,
  draftOfTriton,
  mayBeSource,
  originalsOfPtx,
  readSourceFile,
  KERNEL_ID,
} from '@flashcore/shared/kernels';
import { entryOf, setEntry, shellWord } from '@flashcore/shared/text';
import { sanitize } from '../present/cells/cell-text.ts';
import { readTriton } from '../search/compile-triton.ts';
import { readSource, requireKernelPath, writeSource } from '../search/kernel-source.ts';
import type { CommandContext } from './context.ts';
import { parseKernelArgument, type KernelArgument } from './kernel-argument.ts';
import { draftOf, requireProblem, simplestKernelOf } from './problem-kernels.ts';
import { rememberFolder } from './start-job.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/** The ladder's first step: attention in a single file, without tensor cores. */
const FIRST_KERNEL = 'fa_v1_baseline';

interface NewKernelOptions {
  readonly from?: string;
  /** The PTX file to start from. */
  readonly fromPtx?: string;
  /** A file of Python with functions under @triton.jit. */
  readonly fromTriton?: string;
  /** The function of the Python file that is launched. */
  readonly entry?: string;
  /** The problem whose simplest kernel is copied, or which the PTX computes. */
  readonly problem?: string;
}

/**
 * `fa-tui new <name> [--from <kernel or folder> | --problem <id>]`: creates a kernel folder to start from. Existing
 * files stay unchanged. A problem without kernels gets a kernel that computes nothing yet.
 */
export async function newKernel(name: string, options: NewKernelOptions, context: CommandContext): Promise<ExitCode> {
  const { from: given, fromPtx, fromTriton, problem } = options;
  const folder = path.resolve(name);
  const id = idOfFolder(folder, name);
  requireFree(folder);
  if ([given, fromPtx, fromTriton].filter((each) => each !== undefined).length > 1)
    throw new UsageError('--from, --from-ptx and --from-triton: give one of them');
  if (options.entry !== undefined && fromTriton === undefined) throw new UsageError('--entry: needs --from-triton');
  if (problem !== undefined && given !== undefined)
    throw new UsageError('--problem: goes without --from; a copy computes what its original does');
  if (fromPtx !== undefined) return newFromPtx(fromPtx, { id, folder, problem }, context);
  if (fromTriton !== undefined)
    return newFromTriton(fromTriton, { id, folder, problem, entry: options.entry }, context);
  const original = await originalOf(given, problem);
  if (original === undefined) return newFromProblem({ id, folder, problem: problem! }, context);
  const files = await context.withRunner(({ client }) => copyKernel(original, { id, folder }, client));
  rememberFolder(folder, context);
  if (context.options.json) context.document({ kernel: id, folder, from: original.id, files: Object.keys(files) });
  else {
    const champion = original.kind === 'folder' ? original.folder : original.id;
    context.report(whatNext({ id, folder, from: original.id, champion, files: Object.keys(files) }));
  }
  return ExitCode.PASSED;
}

/** Copies a kernel, an id of the runner's or a folder's path, to a new folder, which it returns. Errors: UsageError. */
export async function copyTo(name: string, from: string, client: RunnerClient): Promise<string> {
  const folder = path.resolve(name);
  const id = idOfFolder(folder, name);
  requireFree(folder);
  const original = path.isAbsolute(from) ? await parseKernelArgument(from) : ({ kind: 'id', id: from } as const);
  await copyKernel(original, { id, folder }, client);
  return folder;
}

/** Writes a copy of a kernel and returns its files. */
async function copyKernel(
  original: KernelArgument,
  { id, folder }: Pick<NewFolder, 'id' | 'folder'>,
  client: RunnerClient,
): Promise<Readonly<Record<string, string>>> {
  await refuseKnown(id, client);
  const files = copiedKernel(await readSource(original, client), id);
  Object.keys(files).forEach(requireKernelPath);
  makeFolder(folder);
  writeSource(folder, files);
  return files;
}

/** The kernel to copy: the given one, or else the simplest one of the problem; undefined if the problem has none. */
async function originalOf(given: string | undefined, problem = DEFAULT_PROBLEM): Promise<KernelArgument | undefined> {
  if (given !== undefined) return parseKernelArgument(given);
  // The id selects the runner's own kernel even if the repository has a folder with this name.
  if (problem === DEFAULT_PROBLEM) return { kind: 'id', id: FIRST_KERNEL };
  const simplest = await simplestKernelOf(problem);
  return simplest === undefined ? undefined : parseKernelArgument(simplest);
}

/** `fa-tui new <name> --problem <id>` for a problem without kernels: writes a kernel that computes nothing yet. */
async function newFromProblem(
  { id, folder, problem }: NewFolder & { problem: string },
  context: CommandContext,
): Promise<ExitCode> {
  const files = draftOf(id, problem);
  await context.withRunner(({ client }) => refuseKnown(id, client));
  makeFolder(folder);
  writeSource(folder, files);
  rememberFolder(folder, context);
  if (context.options.json) context.document({ kernel: id, folder, files: Object.keys(files) });
  else {
    const place = placeOf(folder);
    context.report([
      `${place}  ${id}, the first kernel of ${problem}: ${Object.keys(files).toSorted().join(', ')}`,
      '',
      `It compiles and computes nothing. Write what ${id}.cu marks with TODO; ${MANIFEST_FILE} has the grid and the arguments. Then:`,
      `  fa-tui verify ${place}  says which elements are wrong`,
      `  fa-tui run ${place}     also times, a profile and gates`,
    ]);
  }
  return ExitCode.PASSED;
}

/** The folder as a word for a shell, relative to the current folder if it is below it. */
function placeOf(folder: string): string {
  const relative = path.relative(process.cwd(), folder);
  return shellWord(relative.startsWith('..') ? folder : `./${relative}`);
}

interface NewFolder {
  readonly id: string;
  readonly folder: string;
  readonly problem: string | undefined;
}

/**
 * `fa-tui new <name> --from-ptx <file>`: writes a manifest from the code, and marks the values that only a person
 * knows.
 */
async function newFromPtx(
  file: string,
  { id, folder, problem }: NewFolder,
  context: CommandContext,
): Promise<ExitCode> {
  if (problem !== undefined) requireProblem(problem);
  const source = path.basename(file);
  if (!/^[\w][\w.-]{0,100}\.ptx$/.test(source))
    throw new UsageError(`--from-ptx ${file}: must be a file named *.ptx, of letters, digits, "_", "-" and "."`);
  const beside = path.dirname(path.resolve(file));
  if (!existsSync(file)) throw new UsageError(`--from-ptx ${file}: there is no such file`);
  // Does not follow links, because somebody else may have made the folder, and a link could point to a private key.
  const read = async (each: string): Promise<string> => (await readSourceFile(beside, each)).toString('utf8');
  const ptx = await read(source);
  await context.withRunner(({ client }) => refuseKnown(id, client));
  const files: Record<string, string> = draftFiles(ptx, { id, source, problem });
  for (const name of originalsOfPtx(ptx))
    if (/^[\w][\w.-]{0,100}$/.test(name) && mayBeSource(name) && entryOf(files, name) === undefined)
      if (existsSync(path.join(beside, name))) setEntry(files, name, await read(name));
  makeFolder(folder);
  writeSource(folder, files);
  return drafted(folder, { id, files, context });
}

/**
 * `fa-tui new <name> --from-triton <file>`: takes a function under @triton.jit with those that it calls, without
 * running the file, and drafts a manifest in which the autotune decorator's values are parameters.
 */
async function newFromTriton(
  file: string,
  { id, folder, problem, entry = '' }: NewFolder & { readonly entry?: string | undefined },
  context: CommandContext,
): Promise<ExitCode> {
  if (problem !== undefined) requireProblem(problem);
  if (!existsSync(file)) throw new UsageError(`--from-triton ${file}: there is no such file`);
  const found = readTriton(file, entry, context.surroundings.environment);
  await context.withRunner(({ client }) => refuseKnown(id, client));
  const source = 'kernel.py';
  const files = { [MANIFEST_FILE]: draftOfTriton(found, { id, source, problem }), [source]: found.python };
  makeFolder(folder);
  writeSource(folder, files);
  return drafted(folder, { id, files, context });
}

interface DraftedKernel {
  id: string;
  files: Readonly<Record<string, string>>;
  context: CommandContext;
}

/** Says what to fill in. */
function drafted(folder: string, { id, files, context }: DraftedKernel): ExitCode {
  rememberFolder(folder, context);
  if (context.options.json) context.document({ kernel: id, folder, files: Object.keys(files) });
  else
    context.report([
      `${sanitize(folder)}  ${id}: ${Object.keys(files).toSorted().join(', ')}`,
      '',
      `Fill in what ${sanitize(path.join(folder, MANIFEST_FILE))} marks with ${TO_FILL_IN}: the grid, and which argument is what. Then:`,
      `  fa-tui verify ${shellWord(folder)}`,
    ]);
  return ExitCode.PASSED;
}

/** Refuses an id that is in use, because two kernels with one id would share history, leaderboard and champions. */
async function refuseKnown(id: string, client: RunnerClient): Promise<void> {
  const { kernels } = await client.listKernels({ includeFaulty: true });
  if (kernels.some(({ kernelId }) => kernelId === id))
    throw new UsageError(`${id} is a kernel of the runner: give another name, so that their results stay apart`);
}

interface MadeKernel {
  readonly id: string;
  readonly folder: string;
  readonly from: string;
  /** The kernel that was copied, as a value for --champion. */
  readonly champion: string;
  readonly files: readonly string[];
}

function whatNext({ id, folder, from, champion, files }: MadeKernel): string[] {
  const place = placeOf(folder);
  const commands = [
    [`fa-tui run ${place}`, 'build, verify, bench, profile, gates'],
    [`fa-tui watch-source ${place}`, 'the same at every save'],
    [`fa-tui bench ${place} --champion ${shellWord(champion)}`, `is it faster than ${from}?`],
  ] as const;
  const width = Math.max(...commands.map(([command]) => command.length));
  return [
    `${place}  ${id}, a copy of ${from}: ${files.toSorted().join(', ')}`,
    '',
    'Change the code. A result is accepted only once NOTES.md says what you changed and why.',
    'View 7 of fa-tui lists the kernel; in a shell:',
    ...commands.map(([command, about]) => `  ${command.padEnd(width)}  ${about}`),
  ];
}

/** Refuses a path whose parent folder does not exist, so that a mistyped path does not create folders. */
export function requireFree(folder: string): void {
  if (existsSync(folder)) throw new UsageError(`${folder} exists already: give another name`);
  if (!existsSync(path.dirname(folder)))
    throw new UsageError(`There is no folder ${path.dirname(folder)}: make it, or give another place`);
}

export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Made by another program after requireFree().
    if (code === 'EEXIST') requireFree(folder);
    throw new UsageError(`${folder} cannot be made (${code}): give another place`);
  }
}

/** The kernel's id, which is the folder's name. */
export function idOfFolder(folder: string, name: string): string {
  const id = path.basename(folder);
  if (KERNEL_ID.pattern.test(id)) return id;
  const near = id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[^a-z]+|_+$/g, '')
    .slice(0, 64);
  throw new UsageError(
    `${name}: a kernel's name must be of ${KERNEL_ID.inWords}, beginning with a letter, for example ${near || 'my_kernel'}`,
  );
}
