import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '@flashcore/runner/testing-daemon';
import type { Figure } from './ratios.ts';
import { UNKNOWN_BENCH } from './wanted.ts';

const ROOT = join(import.meta.dirname, '../..');

/** A checkout whose benches can be run. */
export interface MeasuredCode {
  /**
   * Runs a bench there; undefined if that code has no such bench.
   *
   * @throws Error if the program fails.
   */
  figure: (bench: string) => Figure | undefined;
}

/** The checkout that contains this file, as it was last built. */
export const thisCode = (args: readonly string[]): MeasuredCode => codeIn(ROOT, args);

/**
 * Checks out the code of a commit into a temporary folder, installs its own dependencies and builds it.
 *
 * @throws Error if the commit is unknown or does not install.
 */
export function earlierCode(commit: string, args: readonly string[]): MeasuredCode & Disposable {
  using stack = new DisposableStack();
  const folder = join(stack.use(temporaryFolder()).path, 'earlier');
  run(ROOT, ['git', 'worktree', 'add', '--quiet', '--detach', folder, commit]);
  stack.defer(() => {
    rmSync(folder, { recursive: true, force: true });
    run(ROOT, ['git', 'worktree', 'prune']);
  });
  // The benches do not use what `npm ci` builds and compiles at its end.
  run(folder, ['npm', 'ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']);
  run(folder, ['npm', 'run', 'build', '--silent']);
  run(folder, [process.execPath, 'tools/build.mjs', 'bench']);
  const kept = stack.move();
  return { ...codeIn(folder, args), [Symbol.dispose]: () => kept.dispose() };
}

function codeIn(folder: string, args: readonly string[]): MeasuredCode {
  return {
    figure: (bench) => {
      using answers = temporaryFolder();
      const file = join(answers.path, 'figures.json');
      const program = ['--experimental-transform-types', '--no-warnings', 'test/bench/main.ts'];
      const command = [process.execPath, ...program, ...args, '--only', bench, '--out', file];
      if (run(folder, command, [0, UNKNOWN_BENCH]) === UNKNOWN_BENCH) return undefined;
      return (JSON.parse(readFileSync(file, 'utf8')) as { figures: [Figure] }).figures[0];
    },
  };
}

/**
 * Returns the exit code.
 *
 * @throws Error with the output if the exit code is not one of the expected ones.
 */
function run(folder: string, [command, ...args]: string[], expected = [0]): number {
  // npm starts the first Node in PATH, which must be this one and not an older one of the machine.
  const environment = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };
  const { status, error, stdout, stderr } = spawnSync(command!, args, {
    cwd: folder,
    env: environment,
    encoding: 'utf8',
  });
  if (status !== null && expected.includes(status)) return status;
  const said = error?.message ?? (stderr.trim() || stdout.trim());
  throw new Error(`${[command, ...args].join(' ')} in ${folder} ended with ${status}:\n${said}`);
}
