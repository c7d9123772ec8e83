/** Kernels of a problem from which a new one can start: the project's, the ladder's and the examples of this clone. */
import { FlashcoreError } from '@flashcore/shared/contract';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import {
  DEFAULT_PROBLEM,
  MANIFEST_FILE,
  MAX_TREE_BYTES,
  PROBLEM_FILE,
  PROBLEMS_REMEDY,
  casesSource,
  draftOfProblem,
  installedProblem,
  installedProblems,
  loadManifest,
  parseCases,
  problemFolders,
  valuesOf,
  type Cases,
  type Problem,
} from '@flashcore/shared/kernels';
import { readForeignText } from '@flashcore/shared/files';
import { didYouMean, entryOf } from '@flashcore/shared/text';
import { exampleKernels, runnerKernels } from '../connection/data-directory.ts';
import { heading, fact, facts, type Block } from '../present/blocks.ts';
import { caseCount, dtypesOf, problemBlocks, type ListedProblem } from '../present/sections/problem.ts';
import { findProject } from '../settings/project.ts';
import type { CommandContext } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

interface ProblemKernel {
  readonly id: string;
  readonly folder: string;
  readonly source: string;
}

/**
 * The kernels of a problem, the simplest first: sources that include no other file come before those that do, and what
 * has little text, in all files that it includes, before what has much. Kernels that cannot be read are left out, so
 * that one of them hides no others.
 */
export async function kernelsOfProblem(problem: string): Promise<ProblemKernel[]> {
  const parents = [findProject(process.cwd())?.kernels, exampleKernels(), runnerKernels()];
  const folders = parents
    .filter((parent) => parent !== undefined && existsSync(parent))
    .flatMap((parent) => readdirSync(parent!).map((name) => path.join(parent!, name)))
    .filter((folder) => problemIn(folder) === problem);
  const kernels = await Promise.all(
    folders.map(async (folder) => {
      const manifest = await loadManifest(folder).catch((error: unknown) => {
        if (error instanceof FlashcoreError) return undefined;
        throw error;
      });
      const source = manifest && readableText(path.join(folder, manifest.source));
      return { id: manifest?.id ?? '', folder, source: source ?? '' };
    }),
  );
  return kernels
    .filter(({ source }) => source !== '')
    .map((kernel) => ({ kernel, size: sizeOf(kernel), includes: Number(includesOf(kernel.source).length > 0) }))
    .toSorted((a, b) => a.includes - b.includes || a.size - b.size)
    .map(({ kernel }) => kernel);
}

const includesOf = (text: string): string[] => [...text.matchAll(/^\s*#include "([^"]+)"/gm)].map(([, name]) => name!);

/** The length of a kernel's source plus that of each header it includes from its own folder or from kernels/. */
function sizeOf({ folder, source }: ProblemKernel): number {
  const texts = new Map([['', source]]);
  for (const text of texts.values())
    for (const name of includesOf(text).filter((each) => !texts.has(each)))
      texts.set(name, readableText(path.join(folder, name)) ?? readableText(path.join(runnerKernels(), name)) ?? '');
  return [...texts.values()].reduce((sum, text) => sum + text.length, 0);
}

/**
 * The problem that a folder's manifest names, without checking the manifest; undefined if the folder is not a kernel's.
 */
function problemIn(folder: string): string | undefined {
  const text = readableText(path.join(folder, MANIFEST_FILE));
  return text === undefined ? undefined : (/^problem: *['"]?(\w+)/m.exec(text)?.[1] ?? DEFAULT_PROBLEM);
}

/** The text of a file; undefined if the file is missing, too large, a folder or a pipe. */
function readableText(file: string): string | undefined {
  try {
    return readForeignText(file, MAX_TREE_BYTES);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return undefined;
  }
}

/** Refuses an id that is not a problem of this clone or project, and says which folders were searched. */
export function requireProblem(problem: string): void {
  const known = installedProblems();
  if (known.includes(problem)) return;
  const names = didYouMean(problem, known) || `: must be one of ${known.join(', ')}`;
  const { searched, absent } = problemFolders();
  const places = [...searched, ...absent.map((folder) => `${folder} (which does not exist)`)];
  throw new UsageError(
    `${problem} is not a problem here${names}; searched ${places.join(', ')}; ${remedyFor(problem, searched)}`,
  );
}

/** The remedy for a problem that was not found. */
function remedyFor(problem: string, searched: readonly string[]): string {
  const withoutFile = searched.map((folder) => path.join(folder, problem)).find((folder) => existsSync(folder));
  if (withoutFile !== undefined) return `${withoutFile} has no ${PROBLEM_FILE}: write it`;
  const project = findProject(process.cwd());
  const around = [process.cwd(), ...(project ? [path.dirname(project.file)] : [])];
  const unnamed = around
    .flatMap((folder) => [path.join(folder, 'problems'), folder])
    .find((folder) => existsSync(path.join(folder, problem, PROBLEM_FILE)));
  if (unnamed === undefined) return PROBLEMS_REMEDY;
  const inProject = project && path.relative(path.dirname(project.file), unnamed);
  return inProject && !inProject.startsWith('..')
    ? `${path.join(unnamed, problem)} is there: write problems: ${inProject} into ${project.file}`
    : `${path.join(unnamed, problem)} is there: set FLASHCORE_PROBLEMS=${unnamed}, or name the folder in a flashcore.yaml (fa-tui init)`;
}

/** The folder of the simplest kernel of a problem; undefined if there is none. Errors: UsageError. */
export async function simplestKernelOf(problem: string): Promise<string | undefined> {
  requireProblem(problem);
  return (await kernelsOfProblem(problem))[0]?.folder;
}

/**
 * The files of a kernel that computes nothing yet. It takes the problem's first parity case. Errors: INVALID_MANIFEST.
 */
export function draftOf(id: string, problem: string): Record<string, string> {
  const definition = installedProblem(problem);
  const { sets } = casesFor(definition);
  const all = Object.values(sets).flat().map(valuesOf);
  const fractions = definition.attributes.flatMap(({ name }) =>
    all.some((values) => !Number.isInteger(entryOf(values, name) ?? 0)) ? [name] : [],
  );
  return draftOfProblem({
    id,
    problem: definition,
    taken: valuesOf(sets.parity[0]!),
    fractions: new Set(fractions),
  });
}

/** The problems of this clone and project, each with its cases and kernels. Errors: those of installedProblems(). */
export const listedProblems = (ids = installedProblems()): Promise<ListedProblem[]> => Promise.all(ids.map(listed));

/** A problem that cannot be read is listed with the reason. */
async function listed(id: string): Promise<ListedProblem> {
  try {
    const problem = installedProblem(id);
    const { sets } = casesFor(problem);
    const kernels = await kernelsOfProblem(id);
    return { id, problem, sets, kernels: kernels.map((kernel) => ({ id: kernel.id, folder: kernel.folder })) };
  } catch (error) {
    if (!(error instanceof FlashcoreError)) throw error;
    return { id, error: error.message, sets: {}, kernels: [] };
  }
}

/** Attention's cases are in the folder of the runner's kernels. */
function casesFor(problem: Problem): Cases {
  if (problem.id !== DEFAULT_PROBLEM) {
    const { text, path: place } = casesSource(problem);
    return parseCases(text, place, problem);
  }
  const file = path.join(runnerKernels(), 'cases.yaml');
  return parseCases(readFileSync(file, 'utf8'), file);
}

/** `fa-tui problem list [problem]`: lists all problems, or shows the definition of one. */
export async function listProblems(only: string, context: CommandContext): Promise<ExitCode> {
  if (only !== '') requireProblem(only);
  const problems = await listedProblems(only === '' ? undefined : [only]);
  if (context.options.json) context.document({ problems: problems.map(plainProblem) });
  else if (only === '') context.show(problems.flatMap(shortBlocks));
  else context.show(problems.flatMap((problem) => problemBlocks(problem)));
  return ExitCode.PASSED;
}

function shortBlocks(entry: ListedProblem): Block[] {
  const { id, problem, kernels } = entry;
  if (problem === undefined) return problemBlocks(entry);
  return [
    heading(id, problem.title),
    facts(
      fact('axes', problem.axes.map(({ name, about }) => `${name} (${about})`).join(', ')),
      fact('dtypes', dtypesOf(problem).join(', ')),
      problem.baselines.length > 0 ? fact('baselines', problem.baselines.join(', ')) : undefined,
      fact('cases', String(caseCount(entry))),
      fact('kernels', kernels.map((kernel) => kernel.id).join(', ') || 'none'),
    ),
  ];
}

/** A problem as JSON, for the programs that read it. */
const plainProblem = ({ id, problem, error, sets, kernels }: ListedProblem): object => ({
  id,
  ...(error !== undefined && { error }),
  ...(problem && {
    title: problem.title,
    axes: problem.axes.map(({ name, about }) => ({ name, about })),
    attributes: problem.attributes.map(({ name, about }) => ({ name, about })),
    tensors: problem.tensors.map(({ name, direction, dims }) => ({
      name,
      direction,
      dims: dims.map(({ text }) => text),
    })),
    dtypes: dtypesOf(problem),
    baselines: problem.baselines,
    mutants: problem.mutants.map(({ name, about }) => ({ name, about })),
  }),
  cases: Object.fromEntries(
    Object.entries(sets).map(([set, shapes]) => [
      set,
      shapes.map((shape) => ({ ...(shape.name !== '' && { name: shape.name }), ...valuesOf(shape) })),
    ]),
  ),
  kernels: kernels.map((kernel) => kernel.id),
});
