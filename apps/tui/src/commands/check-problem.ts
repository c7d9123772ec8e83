import { dataDirectory, runnerProgram } from '../connection/data-directory.ts';
import { runRunnerCommand } from '../connection/runner-launch.ts';
import type { CommandContext } from './context.ts';
import { requireProblem } from './problem-kernels.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface CheckProblemOptions {
  readonly dtype?: string;
  readonly tolerance?: string;
  /** The options from here on are only for `problem import`. */
  readonly to?: string;
  readonly from?: string;
  readonly anyReference?: boolean;
}

/** Exit codes of flashcore-runner check-problem: a mutant survives, and a wrong definition or command line. */
const REFUSED = 1;
const USAGE = 2;

/**
 * `fa-tui problem check [problem]`: checks whether the cases find the mutants. Runs a command of this clone's runner
 * program, which contains the judge. Needs neither a running runner nor a GPU.
 */
export async function checkProblem(
  problem: string,
  { dtype, tolerance, to, from, anyReference }: CheckProblemOptions,
  { options, surroundings }: CommandContext,
): Promise<ExitCode> {
  if (to !== undefined || from !== undefined || anyReference)
    throw new UsageError('--to, --from and --any-reference: go with problem import');
  if (problem !== '') requireProblem(problem);
  const { environment, stdout } = surroundings;
  const status = await runRunnerCommand({
    program: runnerProgram(),
    args: [
      'check-problem',
      ...(problem === '' ? [] : [problem]),
      ...(dtype === undefined ? [] : ['--dtype', dtype]),
      ...(tolerance === undefined ? [] : ['--tolerance', tolerance]),
      ...(options.json ? ['--json'] : []),
      '--data',
      dataDirectory(environment),
    ],
    environment,
    stdout,
  });
  if (status === USAGE)
    throw new UsageError('flashcore-runner check-problem refused the problem or the command line, as it says above');
  if (status === REFUSED) return ExitCode.FAILED;
  return status === 0 ? ExitCode.PASSED : ExitCode.RUNNER_CANNOT;
}
