/** The test files that do more in `npm run test:all` than in `npm test`. */
import { globSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';

const CHECKOUT = join(import.meta.dirname, '..');

/**
 * Only there: campaigns of minutes, every build of the ladder, what nx, the linter and the formatters do here, and what
 * takes many experiments. With them `npm test` takes more than its five minutes on two processors.
 */
export const LONG_TESTS = [
  '**/reliability/{cache,cancel,faulty,fuzz,history,hostile,kill,leak,matrix,overload,streams,unread,watchers}.test.ts',
  '**/reliability/{fleet,power-loss,search,store}.test.ts',
  '**/ladder/ladder.test.ts',
  '**/workspace/{format,lint-rules,nx}.test.ts',
  '**/{against,conformance,corpus,drawn-shapes-of-limits,first-day,reference,simulated-cluster}.test.ts',
  '**/acceptance/unfair-attempts.test.ts',
  '**/e2e/{agreeing-figures,evaluate,evolve,fleet,odd-names,remote,tui-commands}.test.ts',
];

/** What a test with a short form says: `inFull(…)`, a campaign's `short: …`, or the variable itself. */
const SHORT_FORM = /\binFull\(|\bALL_TESTS\b|FLASHCORE_TESTS|\bshort: \d/;

/** Whether this file, of this text, is among them. */
export const isLong = (path: string, text: string): boolean =>
  LONG_TESTS.some((pattern) => matchesGlob(path, pattern)) || SHORT_FORM.test(text);

interface TestFile {
  /** From the checkout on. */
  readonly path: string;
  readonly text: string;
}

/** All of the workspace's. */
export const testFiles = (): TestFile[] =>
  globSync('{apps,libs,test,tools}/**/*.test.{ts,tsx}', { cwd: CHECKOUT, exclude: (path) => path === 'node_modules' })
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(CHECKOUT, path), 'utf8') }));
