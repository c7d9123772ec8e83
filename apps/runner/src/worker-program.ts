import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Path of a program of apps/runner/worker: NAME.js next to the bundle. If the runner runs from its sources, it is
 * NAME.js in the folder that FLASHCORE_PROGRAMS names (the tests build it), or else the source itself. Node then strips
 * its types, which takes ten times the processor time.
 */
export function workerProgram(name: string, source: string): string {
  const file = `${name}.js`;
  const bundled = new URL(file, import.meta.url);
  if (existsSync(bundled)) return fileURLToPath(bundled);
  const folder = process.env['FLASHCORE_PROGRAMS'];
  return folder ? `${folder}/${file}` : fileURLToPath(new URL(`../worker/${source}`, import.meta.url));
}
