/** The test files that do more in `npm run test:all` than in `npm test`. */
import { globSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';

const CHECKOUT = join(import.meta.dirname, '..');

/**
 * Files that run only in `npm run test:all`: campaigns, every build of the ladder, runs of nx, of the linter and of the
 * formatters, and tests with many experiments. With these files, `npm test` would take more than five minutes on two
 * processors.
 */
export const LONG_TESTS = [
  '**/{reliability,interop}/*.test.ts',
  '**/ladder/{engines,ladder}.test.ts',
  '**/build/{entries-apart,kept-state}.test.ts',
  '**/export/torch-signatures.test.ts',
  '**/workspace/{format,lint-rules,nx}.test.ts',
  '**/{against,conformance,corpus,drawn-shapes-of-limits,first-day,reference,simulated-cluster}.test.ts',
  '**/{acceptance/unfair-attempts,fleet/gateway-restart,fleet/kubernetes,native/oracle-beside-torch,sdpa/rivals}.test.ts',
  '**/experiment/{cheating-kernels,comparison,drawn-shapes,hostile-kernels,layouts,plans,probes,ptx-engine,tune}.test.ts',
  '**/e2e/{agreeing-figures,bundle,champions,check-kernels,ci-workflows,crash,devices,eight-bit-dtypes}.test.ts',
  '**/e2e/{evaluate,evolve,experiment,faulty,first-steps,fleet,fleet-trouble,hostile-text}.test.ts',
  '**/e2e/{import-problem,import-program,languages,lent-terminal,mcp,odd-names,operation,own-attention,own-folder,own-problem,package,poor-host}.test.ts',
  '**/e2e/{problem-page,project,project-login,remote,several-people,triton-faults,tui-commands}.test.ts',
  '**/e2e/{tui-life,tune,unfair-paths,uninstall}.test.ts',
];

/** Texts that mark a test with a short form: `inFull(…)`, or the variable itself. */
const SHORT_FORM = /\binFull\(|\bALL_TESTS\b|FLASHCORE_TESTS/;

/** True if the file runs only in `npm run test:all`. */
export const isLeftOut = (path: string): boolean => LONG_TESTS.some((pattern) => matchesGlob(path, pattern));

/** True if the file with this path and text is a long test. */
export const isLong = (path: string, text: string): boolean => isLeftOut(path) || SHORT_FORM.test(text);

/** A test that may be skipped: `missing('openssl')`, `test.skipIf(…)`, `skip('no box')`. */
const MAY_SKIP = /\b(?:missing|skip|skipIf)\(/;

/**
 * True if the packages of the machine matter to the file: a test may be skipped, or whole programs run, in a sandbox
 * where there is one.
 */
export const needsPackages = (path: string, text: string): boolean =>
  MAY_SKIP.test(text) || path.startsWith('test/e2e/');

interface TestFile {
  /** Relative to the checkout. */
  readonly path: string;
  readonly text: string;
}

/** All test files of the workspace. */
export const testFiles = (): TestFile[] =>
  globSync('{apps,lab,libs,test,tools}/**/*.test.{ts,tsx}', {
    cwd: CHECKOUT,
    exclude: (path) => path === 'node_modules',
  })
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(CHECKOUT, path), 'utf8') }));

/**
 * Part `index` (from 1) of `count` parts of a list. Neighbours fall into different parts, because they often take
 * equally long.
 */
export const partOf = <Item>(items: readonly Item[], index: number, count: number): Item[] =>
  items.filter((_, at) => at % count === index - 1);
