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
   * Runs benches of this checkout in one process, because loading the code takes longer than most benches. The answer
   * has no figure for a bench that its code lacks.
   *
   * @throws Error if the program fails.
   */
  figures: (benches: readonly string[]) => ReadonlyMap<string, Figure>;
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

/**
 * A module that lets Node reuse the TypeScript of a folder's benches, once it has compiled it. The programs that the
 * benches start do not see it, unlike a variable of the environment.
 */
function reuseOfCode(folder: string): string {
  const kept = JSON.stringify(join(folder, 'test/dist/bench/compiled'));
  return `data:text/javascript,${encodeURIComponent(`import { enableCompileCache } from 'node:module'; enableCompileCache(${kept});`)}`;
}

function codeIn(folder: string, args: readonly string[]): MeasuredCode {
  const figures = (benches: readonly string[]): ReadonlyMap<string, Figure> => {
    using answers = temporaryFolder();
    const file = join(answers.path, 'figures.json');
    const program = [
      '--import',
      reuseOfCode(folder),
      '--experimental-transform-types',
      '--no-warnings',
      'test/bench/main.ts',
    ];
    const command = [process.execPath, ...program, ...args, '--only', benches.join(','), '--out', file];
    const ended = runIn(folder, command, [0, UNKNOWN_BENCH]);
    if (ended === UNKNOWN_BENCH)
      return new Map(benches.length === 1 ? [] : benches.flatMap((bench) => [...figures([bench])]));
    const measured = (JSON.parse(readFileSync(file, 'utf8')) as { figures: Figure[] }).figures;
    return new Map(measured.map((figure) => [figure.id, figure]));
  };
  return { figures };
}
