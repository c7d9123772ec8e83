/** Kernels of a problem from which a new one can start: the project's, the ladder's and the examples of this clone. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import {
  DEFAULT_PROBLEM,
  MANIFEST_FILE,
  PROBLEMS_REMEDY,
  installedProblem,
  installedProblems,
  loadManifest,
} from '@flashcore/shared/kernels';
import { runnerKernels } from '../connection/data-directory.ts';
import { heading, fact, facts, type Block } from '../present/blocks.ts';
import { findProject } from '../settings/project.ts';
import type { CommandContext } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

interface ProblemKernel {
  readonly id: string;
  readonly folder: string;
  readonly source: string;
}

/**
 * The kernels of a problem, the simplest first: sources that include no other file come before those that do, and short
 * sources before long ones. Errors: INVALID_MANIFEST if a manifest of this problem cannot be read.
 */
export async function kernelsOfProblem(problem: string): Promise<ProblemKernel[]> {
  const parents = [
    findProject(process.cwd())?.kernels,
    path.join(runnerKernels(), '../examples/kernels'),
    runnerKernels(),
  ];
  const folders = parents
    .filter((parent) => parent !== undefined && existsSync(parent))
    .flatMap((parent) => readdirSync(parent!).map((name) => path.join(parent!, name)))
    .filter((folder) => problemIn(folder) === problem);
  const kernels = await Promise.all(
    folders.map(async (folder) => {
      const { id, source } = await loadManifest(folder);
      const file = path.join(folder, source);
      return { id, folder, source: existsSync(file) ? readFileSync(file, 'utf8') : '' };
    }),
  );
  const includes = ({ source }: ProblemKernel): number => Number(/^\s*#include "/m.test(source));
  return kernels
    .filter(({ source }) => source !== '')
    .toSorted((a, b) => includes(a) - includes(b) || a.source.length - b.source.length);
}

/**
 * The problem that a folder's manifest names, without checking the manifest; undefined if the folder is not a kernel's.
 */
function problemIn(folder: string): string | undefined {
  const file = path.join(folder, MANIFEST_FILE);
  if (!existsSync(file)) return undefined;
  return /^problem: *['"]?(\w+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? DEFAULT_PROBLEM;
}

/** Refuses an id that is not a problem of this clone or project. */
export function requireProblem(problem: string): void {
  if (!installedProblems().includes(problem))
    throw new UsageError(
      `${problem} is no problem here: must be one of ${installedProblems().join(', ')}; ${PROBLEMS_REMEDY}`,
    );
}

/** The folder of the simplest kernel of a problem. Errors: UsageError if there is none. */
export async function simplestKernelOf(problem: string): Promise<string> {
  requireProblem(problem);
  const [simplest] = await kernelsOfProblem(problem);
  if (simplest) return simplest.folder;
  throw new UsageError(
    `--problem ${problem}: there is no kernel of it yet: copy one of another problem with --from FOLDER, and name ${problem} in its ${MANIFEST_FILE}`,
  );
}

/** `fa-tui problem list [problem]`: the problems of this clone and project, and the kernels of each. */
export async function listProblems(only: string, context: CommandContext): Promise<ExitCode> {
  if (only !== '') requireProblem(only);
  const problems = await Promise.all(
    (only === '' ? installedProblems() : [only]).map(async (id) => {
      const { title, axes, tensors, baselines } = installedProblem(id);
      return {
        id,
        title,
        axes: axes.map((axis) => ({ name: axis.name, about: axis.about })),
        dtypes: [...new Set(tensors.flatMap(({ dtypes }) => dtypes))],
        baselines,
        kernels: (await kernelsOfProblem(id)).map((kernel) => kernel.id),
      };
    }),
  );
  if (context.options.json) context.document({ problems });
  else
    context.show(
      problems.flatMap(({ id, title, axes, dtypes, baselines, kernels }): Block[] => [
        heading(id, title),
        facts(
          fact('axes', axes.map(({ name, about }) => `${name} (${about})`).join(', ')),
          fact('dtypes', dtypes.join(', ')),
          ...(baselines.length > 0 ? [fact('baselines', baselines.join(', '))] : []),
          fact('kernels', kernels.join(', ') || 'none'),
        ),
      ]),
    );
  return ExitCode.PASSED;
}
