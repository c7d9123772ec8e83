import path from 'node:path';
import { shellWord } from '@flashcore/shared/text';
import { sanitize } from '../present/cells/cell-text.ts';
import { importProblems, type Imported } from '../problem-import/import-problems.ts';
import { UsageError } from '../usage-error.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';

export interface ImportProblemOptions {
  readonly to?: string;
  readonly anyReference?: boolean;
  /** Option of `problem check`. */
  readonly dtype?: string;
}

/**
 * `fa-tui problem import <file or folder> --to <folder>`: imports definitions of FlashInfer-Bench as problems. It uses
 * neither a runner nor Python. Exit code 1 if nothing was imported.
 */
export function importProblem(
  from: string,
  { to, anyReference = false, dtype }: ImportProblemOptions,
  context: CommandContext,
): ExitCode {
  if (dtype !== undefined) throw new UsageError('--dtype: goes with problem check; a definition says its own');
  if (from === '') throw new UsageError('problem import: give a definition of FlashInfer-Bench, or a folder of them');
  if (to === undefined) throw new UsageError('problem import: give the folder of your problems with --to');
  const results = importProblems({ from, to, anyReference });
  const imported = results.filter(({ reason }) => reason === undefined);
  if (context.options.json) context.document({ imported: imported.length, definitions: results });
  else context.report([...results.map(lineOf), '', ...whatNext(imported, { all: results.length, to })]);
  return imported.length > 0 ? ExitCode.PASSED : ExitCode.FAILED;
}

function lineOf({ name, problem, shapes, workloads, reason }: Imported): string {
  if (reason !== undefined) return `not imported  ${sanitize(reason)}`;
  const { taken, found } = workloads!;
  const cases = found === 0 ? 'no workloads' : `${taken} of ${found} workloads`;
  if (problem === undefined) return `imported      ${sanitize(name)}: ${cases}`;
  return `imported      ${sanitize(name)}: is the installed problem ${problem}, ${cases}${shapes === undefined ? '' : ` in ${sanitize(shapes)}`}`;
}

function whatNext(imported: readonly Imported[], { all, to }: { all: number; to: string }): string[] {
  const summary = `${imported.length} of ${all} imported into ${sanitize(to)}`;
  const [made, shaped] = [imported.find(({ folder }) => folder), imported.find(({ shapes }) => shapes)];
  return [
    summary,
    ...(made === undefined ? [] : problemNext(path.basename(made.folder!), to)),
    ...(shaped === undefined
      ? []
      : [
          `A kernel of ${shaped.problem} on the shapes of a file:`,
          `  sed 's/^/--shape=/' ${shellWord(shaped.shapes!)} | xargs fa-tui verify KERNEL`,
        ]),
  ];
}

const problemNext = (id: string, to: string): string[] => [
  `A kernel.yaml names a problem: \`problem: ${id}\`. Do its cases find its mutants?`,
  `  FLASHCORE_PROBLEMS=${shellWord(to)} fa-tui problem check ${id} --dtype bf16`,
];
