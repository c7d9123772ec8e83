import path from 'node:path';
import type { ProblemProgram } from '@flashcore/shared/kernels';
import { shellWord } from '@flashcore/shared/text';
import { runnerProgram } from '../connection/data-directory.ts';
import { runRunnerCommand } from '../connection/runner-launch.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { importProblems, type Imported } from '../problem-import/import-problems.ts';
import { importPrograms } from '../problem-import/import-programs.ts';
import type { CommandContext } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface ImportProblemOptions {
  readonly to?: string;
  readonly from?: ProblemProgram;
  readonly anyReference?: boolean;
  /** Only for `problem check`. */
  readonly dtype?: string;
}

/**
 * `fa-tui problem import <file or folder> --to <folder>`: imports definitions of FlashInfer-Bench as problems, without
 * a runner and without Python. With `--from`, imports programs, which the runner's program runs in a sandbox. Exit code
 * 1 if nothing was imported.
 */
export async function importProblem(
  source: string,
  given: ImportProblemOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { to, from, anyReference = false, dtype } = given;
  if (dtype !== undefined) throw new UsageError('--dtype: goes with problem check; a definition says its own');
  if (source === '') throw new UsageError('problem import: give a definition of FlashInfer-Bench, or a folder of them');
  if (to === undefined) throw new UsageError('problem import: give the folder of your problems with --to');
  if (from !== undefined && anyReference)
    throw new UsageError('--any-reference: goes with definitions of FlashInfer-Bench; a program is its own reference');
  const results =
    from === undefined
      ? importProblems({ from: source, to, anyReference })
      : await importPrograms({ from: source, form: from, to, describe: describer(from, context) });
  const imported = results.filter(({ reason }) => reason === undefined);
  if (context.options.json) context.document({ imported: imported.length, definitions: results });
  else context.report([...results.map(lineOf), '', ...whatNext(imported, { all: results.length, to })]);
  return imported.length > 0 ? ExitCode.PASSED : ExitCode.FAILED;
}

/** Limit on the files of one run, because each is an argument on the command line. */
const MOST_AT_ONCE = 256;

const describer =
  (form: ProblemProgram, { surroundings: { environment } }: CommandContext) =>
  async (files: readonly string[]): Promise<string> => {
    const lines: string[] = [];
    for (let from = 0; from < files.length; from += MOST_AT_ONCE) {
      const status = await runRunnerCommand({
        program: runnerProgram(),
        args: ['describe-problems', form, ...files.slice(from, from + MOST_AT_ONCE)],
        environment,
        stdout: { write: (text) => lines.push(text) },
      });
      if (status !== 0)
        throw new UsageError('The Python files could not be run in a sandbox, as the runner says above');
    }
    return lines.join('');
  };

function lineOf({ name, problem, shapes, workloads, reason }: Imported): string {
  if (reason !== undefined) return `not imported  ${sanitize(reason)}`;
  if (workloads === undefined) return `imported      ${sanitize(name)}`;
  const { taken, found } = workloads;
  const cases = found === 0 ? 'no workloads' : `${taken} of ${found} workloads`;
  if (problem === undefined) return `imported      ${sanitize(name)}: ${cases}`;
  return `imported      ${sanitize(name)}: is the installed problem ${problem}, ${cases}${shapes === undefined ? '' : ` in ${sanitize(shapes)}`}`;
}

interface Done {
  readonly all: number;
  readonly to: string;
}

function whatNext(imported: readonly Imported[], { all, to }: Done): string[] {
  const summary = `${imported.length} of ${all} imported into ${sanitize(to)}`;
  const [made, shaped] = [imported.find(({ folder }) => folder), imported.find(({ shapes }) => shapes)];
  return [
    summary,
    ...(made === undefined ? [] : problemNext(path.basename(made.folder!), { to, dtype: made.dtype ?? 'bf16' })),
    ...(shaped === undefined
      ? []
      : [
          `A kernel of ${shaped.problem} on the shapes of a file:`,
          `  sed 's/^/--shape=/' ${shellWord(shaped.shapes!)} | xargs fa-tui verify KERNEL`,
        ]),
  ];
}

const problemNext = (id: string, { to, dtype }: { to: string; dtype: string }): string[] => [
  `A kernel.yaml names a problem: \`problem: ${id}\`. Do its cases find its mutants?`,
  `  FLASHCORE_PROBLEMS=${shellWord(to)} fa-tui problem check ${id} --dtype ${dtype}`,
];
