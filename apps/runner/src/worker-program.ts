import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * A program of apps/runner/worker: NAME.js beside the bundle. Where the runner runs from its sources, NAME.js in the
 * folder that FLASHCORE_PROGRAMS names (tests build it), or its own source, whose types Node strips, which takes ten
 * times the processor time.
 */
export function workerProgram(name: string, source: string): string {
  const file = `${name}.js`;
  const bundled = new URL(file, import.meta.url);
  if (existsSync(bundled)) return fileURLToPath(bundled);
  const folder = process.env['FLASHCORE_PROGRAMS'];
  return folder ? `${folder}/${file}` : fileURLToPath(new URL(`../worker/${source}`, import.meta.url));
}
