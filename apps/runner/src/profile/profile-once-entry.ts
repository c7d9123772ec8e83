import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The program that profiler and sanitizer are wrapped around: dist/profile-once.js beside the bundle; its source when
 * the runner runs from its sources (Node strips the types).
 */
export function profileOnceEntry(): string {
  const bundled = new URL('./profile-once.js', import.meta.url);
  return fileURLToPath(existsSync(bundled) ? bundled : new URL('../../worker/profile-once.ts', import.meta.url));
}
