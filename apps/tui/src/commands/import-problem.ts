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
}

/**
 * `fa-tui problem import <file or folder> --to <folder>`: definitions of FlashInfer-Bench as problems. Neither a runner
 * nor Python is asked. 1: nothing was imported.
 */
export function importProblem(
  from: string,
  { to, anyReference = false }: ImportProblemOptions,
  context: CommandContext,
): ExitCode {
  if (from === '') throw new UsageError('problem import: give a definition of FlashInfer-Bench, or a folder of them');
  if (to === undefined) throw new UsageError('problem import: give the folder of your problems with --to');
  const results = importProblems({ from, to, anyReference });
  const imported = results.filter(({ folder }) => folder !== undefined);
  if (context.options.json) context.document({ imported: imported.length, definitions: results });
  else context.report([...results.map(lineOf), '', ...whatNext(imported, { all: results.length, to })]);
  return imported.length > 0 ? ExitCode.PASSED : ExitCode.FAILED;
}

function lineOf({ name, workloads, reason }: Imported): string {
  if (reason !== undefined) return `not imported  ${sanitize(reason)}`;
  const { taken, found } = workloads!;
  const cases = found === 0 ? 'no workloads' : `${taken} of ${found} workloads`;
  return `imported      ${sanitize(name)}: ${cases}`;
}

function whatNext(imported: readonly Imported[], { all, to }: { all: number; to: string }): string[] {
  const summary = `${imported.length} of ${all} imported into ${sanitize(to)}`;
  const [first] = imported;
  if (!first) return [summary];
  const id = path.basename(first.folder!);
  return [
    `${summary}. A kernel.yaml names one: \`problem: ${id}\`. Do the cases of it find its mutants?`,
    `  FLASHCORE_PROBLEMS=${shellWord(to)} fa-tui problem check ${id} --dtype bf16`,
  ];
}
