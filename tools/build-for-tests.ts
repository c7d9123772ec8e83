/**
 * vitest's globalSetup: bundles what tests start often (FLASHCORE_PROGRAMS). A worker of one file takes a tenth of the
 * processor time of one from its sources, of which Node strips the types anew in each process.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export default function setup(): void {
  execFileSync(process.execPath, [join(import.meta.dirname, 'build.mjs'), 'testing'], { stdio: 'inherit' });
}
