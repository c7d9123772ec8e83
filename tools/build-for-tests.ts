/**
 * vitest's globalSetup. Bundles what tests start often (FLASHCORE_PROGRAMS): a worker of one file takes a tenth of the
 * processor time of one from its sources, of which Node strips the types anew in each process. Then compiles the
 * emulator and the reference where they are not in FLASHCORE_LIBRARY_CACHE: within a test the minute of two processors
 * would count as its own, and beside other tests it is several.
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
  // What can't be compiled fails the tests that need it, and only those.
  if (status !== 0) console.warn(`The emulator was not compiled before the tests: ${stderr.trim().split('\n')[0]}`);
}
