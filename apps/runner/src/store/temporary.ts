import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * In the data folder rather than in the host's /tmp: on the disk that the runner was given, and known to be its own
 * when it is started again.
 */
const pathIn = (dataDirectory: string): string => join(dataDirectory, 'tmp');

/** Removes what a killed runner left of its temporary folders; once, at the start of the data folder's one runner. */
export function clearTemporary(dataDirectory: string): void {
  rmSync(pathIn(dataDirectory), { recursive: true, force: true });
}

/**
 * Makes an empty folder of its own for a piece of work, "<purpose>-XXXXXX" with mode 0700, that goes when it is
 * disposed of: `using folder = makeTemporary(…)`.
 */
export function makeTemporary(dataDirectory: string, purpose: string): Disposable & { readonly path: string } {
  const parent = pathIn(dataDirectory);
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  const path = mkdtempSync(join(parent, `${purpose}-`));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
