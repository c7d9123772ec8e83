/**
 * Prints the test files that do more in `npm run test:all` than in `npm test`: those that only it has, and those with a
 * short form. It runs them after `npm test`, so that no other test runs twice.
 */
import { globSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';

/** Campaigns of minutes, every build of the ladder, and what nx, the linter and the formatters do here. */
export const LONG_TESTS = [
  '**/reliability/{cache,cancel,faulty,fuzz,hostile,kill,leak,matrix,overload,streams,unread,watchers}.test.ts',
  '**/ladder/ladder.test.ts',
  '**/workspace/{format,lint-rules,nx}.test.ts',
];

/** What a test with a short form says: `inFull(…)`, a campaign's `short: …`, or the variable itself. */
const SHORT_FORM = /\binFull\(|\bALL_TESTS\b|FLASHCORE_TESTS|\bshort: \d/;

const ROOT = join(import.meta.dirname, '..');

/** Paths from the root. */
export function longerTests(): string[] {
  return globSync('{apps,libs,test,tools}/**/*.test.{ts,tsx}', {
    cwd: ROOT,
    exclude: (path) => /(^|\/)(node_modules|dist)$/.test(path),
  })
    .filter(
      (path) =>
        LONG_TESTS.some((pattern) => matchesGlob(path, pattern)) ||
        SHORT_FORM.test(readFileSync(join(ROOT, path), 'utf8')),
    )
    .toSorted();
}

if (import.meta.main) console.log(longerTests().join('\n'));
