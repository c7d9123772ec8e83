import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@flashcore/runner/testing-daemon';
import { earlierCheckout, runIn } from '../support/earlier-checkout.ts';
import { ROOT } from '../support/home.ts';
import type { Figure } from './ratios.ts';
import { UNKNOWN_BENCH } from './benches.ts';

/** A checkout whose benches can be run. */
export interface MeasuredCode {
  /**
   * Runs a bench of this checkout. Returns undefined if its code has no such bench.
   *
   * @throws Error if the program fails.
   */
  figure: (bench: string) => Figure | undefined;
}

/** This file's checkout, as it was last built. */
export const thisCode = (args: readonly string[]): MeasuredCode => codeIn(ROOT, args);

/**
 * The code of a commit, in a separate checkout.
 *
 * @throws Error if the commit is unknown or does not install.
 */
export function earlierCode(commit: string, args: readonly string[]): MeasuredCode & Disposable {
  using stack = new DisposableStack();
  const { folder } = stack.use(earlierCheckout(commit));
  runIn(folder, [process.execPath, 'tools/build.mjs', 'bench']);
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
      if (runIn(folder, command, [0, UNKNOWN_BENCH]) === UNKNOWN_BENCH) return undefined;
      return (JSON.parse(readFileSync(file, 'utf8')) as { figures: [Figure] }).figures[0];
    },
  };
}
