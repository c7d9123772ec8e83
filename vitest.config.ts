import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
// eslint-disable-next-line @nx/enforce-module-boundaries -- the root has no tags that would let it import a package
import { fastInkTests } from './tools/fast-ink.mjs';
// eslint-disable-next-line @nx/enforce-module-boundaries -- as above
import { LONG_TESTS } from './tools/long-tests.ts';
// eslint-disable-next-line @nx/enforce-module-boundaries -- as above
import MixedOrder from './tools/mixed-order.ts';

const CACHE = process.env['FLASHCORE_TESTS_CACHE'] ?? `${import.meta.dirname}/node_modules/.cache/flashcore-tests`;

// For vitest's workers, and for this process, which loads reporters.
const BEFORE_VITEST = /[%#]/.test(import.meta.dirname) ? ['--import', './tools/percent-in-paths.mjs'] : [];
if (BEFORE_VITEST.length > 0) await import('./tools/percent-in-paths.mjs');

// Lets Node reuse code that it has compiled once, above all TypeScript, because tests start hundreds of processes.
process.env['NODE_COMPILE_CACHE'] ??= `${CACHE}/code`;

/** Projects whose files leave nothing behind share a process: a third of their time was loading the same modules. */
const SHARE_PROCESSES = ['lab', 'runner', 'shared', 'tools', 'tui'];

const project = (name: string, root: string) => ({
  extends: true as const,
  test: {
    name,
    root,
    isolate: !SHARE_PROCESSES.includes(name),
    include: ['**/*.test.{ts,tsx}'],
    setupFiles: [`${import.meta.dirname}/tools/leftovers-of-file.ts`],
    exclude: ['**/node_modules/**', '**/dist/**', ...(process.env['FLASHCORE_TESTS'] === 'all' ? [] : LONG_TESTS)],
  },
});

// fa-tui's tests use the built fa-tui's version of Ink and React's production build: they draw what users see, and
// faster.
const withFastInk = ({ test, ...config }: ReturnType<typeof project>) => ({
  ...config,
  plugins: [fastInkTests],
  oxc: { jsx: { runtime: 'automatic' as const, development: false } },
  test: { ...test, env: { NODE_ENV: 'production' }, server: { deps: { inline: ['ink'] } } },
});

export default defineConfig({
  test: {
    reporters: ['default', './tools/skipped-reporter.ts'],
    // Most tests start real processes and wait for them: with one file per core, two fifths of the processors were
    // idle.
    maxWorkers: Math.min(2 * availableParallelism(), availableParallelism() + 4),
    sequence: { sequencer: MixedOrder },
    globalSetup: ['./tools/leftovers.ts', './tools/build-for-tests.ts'],
    // A shared CI machine can be too busy for a time limit; a real fault fails all three times.
    retry: process.env['CI'] ? 2 : 0,
    // One CI machine may be three times as slow as another.
    testTimeout: process.env['CI'] || process.env['FLASHCORE_TESTS'] === 'all' ? 180_000 : 60_000,
    execArgv: BEFORE_VITEST,
    hookTimeout: 120_000,
    // In a container the tests are root, and so are the runners that they start.
    env: {
      FLASHCORE_ALLOW_ROOT: '1',
      // The emulator, the reference and each kernel are compiled once for all tests, found by the digest of all their
      // inputs. Removed with node_modules, and by `npm ci`.
      FLASHCORE_LIBRARY_CACHE: `${CACHE}/libraries`,
      FLASHCORE_BUILD_CACHE: `${CACHE}/builds`,
      FLASHCORE_PROGRAMS: `${import.meta.dirname}/apps/runner/dist/testing`,
    },
    projects: [
      project('emulator', 'libs/emulator'),
      project('shared', 'libs/shared'),
      project('runner', 'apps/runner'),
      withFastInk(project('tui', 'apps/tui')),
      project('tools', 'tools'),
      project('test', 'test'),
      project('lab', 'lab'),
    ],
  },
});
