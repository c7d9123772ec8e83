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
  '**/interop/*.test.ts',
  '**/reliability/!(bad-requests).test.ts',
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
  '**/e2e/{problem-page,project,project-login,remote,several-people,triton-faults,tui-decisions}.test.ts',
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
/** Tests that only the long form has, and that are skipped without a package. */
const ONLY_IN_FULL = /\bif \(ALL_TESTS\)\s+test\.skipIf\(missing\('[^']+'\)\)/g;
/** The bare roots have these packages, or get them (tools/bare-root). */
const IN_BARE_ROOTS = ['openssl', 'sshd', 'xz-utils'];

/** The packages without which a test of the file's short form is skipped. */
export const packagesOf = (text: string): string[] => [
  ...new Set([...text.replace(ONLY_IN_FULL, '').matchAll(/\bmissing\('([^']+)'\)/g)].map(([, name]) => name!)),
];

/**
 * True if a test of the file's short form is skipped in the bare roots, because they have no sandbox or lack another
 * package. Whole programs in a sandbox are in e2e/tui.test.ts and e2e/triton.test.ts.
 */
export function needsPackages(text: string): boolean {
  const packages = packagesOf(text);
  if (packages.length > 0) return packages.some((name) => !IN_BARE_ROOTS.includes(name));
  return MAY_SKIP.test(text.replace(ONLY_IN_FULL, ''));
}

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
 * Seconds that files took in a part of the long tests, next to three other files on two processors. The others take
 * about a minute.
 */
export const LONG_SECONDS: Readonly<Record<string, number>> = {
  'apps/runner/src/acceptance/unfair-attempts.test.ts': 240,
  'apps/runner/src/experiment/drawn-shapes.test.ts': 257,
  'apps/runner/src/experiment/hostile-kernels.test.ts': 106,
  'apps/runner/src/experiment/plans.test.ts': 324,
  'apps/runner/src/experiment/ptx-engine.test.ts': 147,
  'apps/runner/src/fleet/gateway-restart.test.ts': 101,
  'apps/runner/src/problem-check/check-command.test.ts': 172,
  'apps/runner/src/spec/drawn-shapes-of-limits.test.ts': 279,
  'apps/tui/src/commands/cli.test.ts': 103,
  'test/corpus/corpus.test.ts': 179,
  'test/e2e/champions.test.ts': 149,
  'test/e2e/eight-bit-dtypes.test.ts': 189,
  'test/e2e/evaluate.test.ts': 163,
  'test/e2e/evolve.test.ts': 386,
  'test/e2e/fleet.test.ts': 166,
  'test/e2e/import-program.test.ts': 130,
  'test/e2e/mcp.test.ts': 240,
  'test/e2e/odd-names.test.ts': 163,
  'test/e2e/own-attention.test.ts': 206,
  'test/e2e/problems.test.ts': 970,
  'test/e2e/remote.test.ts': 152,
  'test/e2e/triton-faults.test.ts': 178,
  'test/e2e/unfair-paths.test.ts': 467,
  'test/native/oracle-beside-torch.test.ts': 120,
  'test/reliability/kill.test.ts': 114,
  'test/reliability/search.test.ts': 261,
};
const USUAL_SECONDS = 60;

/** The seconds of a long test. */
export const longSeconds = (path: string): number => LONG_SECONDS[path] ?? USUAL_SECONDS;

interface PartOptions<Item> {
  readonly index: number;
  readonly count: number;
  readonly secondsOf: (item: Item) => number;
}

/**
 * Part `index` (from 1) of `count` parts that take about equally long: each item, the longest first, goes to the part
 * that is the shortest so far.
 */
export function partOf<Item>(items: readonly Item[], { index, count, secondsOf }: PartOptions<Item>): Item[] {
  const parts = Array.from({ length: count }, () => ({ seconds: 0, items: [] as Item[] }));
  for (const item of items.toSorted((a, b) => secondsOf(b) - secondsOf(a))) {
    const shortest = parts.reduce((least, part) => (part.seconds < least.seconds ? part : least));
    shortest.seconds += secondsOf(item);
    shortest.items.push(item);
  }
  return parts[index - 1]!.items;
}
