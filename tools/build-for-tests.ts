/**
 * vitest's globalSetup. Bundles the programs that tests start often (FLASHCORE_PROGRAMS). A bundled worker needs a
 * tenth of the processor time of a worker started from sources, whose types Node strips in each process. Then compiles
 * the emulator and the reference if FLASHCORE_LIBRARY_CACHE lacks them. Within a test the compilation would count as
 * the test's time: a minute on two processors, and several minutes next to other tests.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

const run = (...args: string[]) => execFileSync(process.execPath, args, { stdio: 'inherit' });

export default function setup(project: TestProject): void {
  run(join(import.meta.dirname, 'build.mjs'), 'testing');
  const into = project.config.env['FLASHCORE_LIBRARY_CACHE'];
  const runner = join(import.meta.dirname, '../apps/runner/bin/flashcore-runner.js');
  const { status, stderr } = spawnSync(process.execPath, [runner, 'compile', '--into', String(into)], {
    encoding: 'utf8',
  });
  // If this fails, only the tests that need the library fail.
  if (status !== 0) console.warn(`The emulator was not compiled before the tests: ${stderr.trim().split('\n')[0]}`);
}
