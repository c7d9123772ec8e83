import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Temporary folders are in the data folder rather than in the host's /tmp: they are on the disk chosen for the runner,
 * and can be recognized as the runner's after a restart.
 */
const pathIn = (dataDirectory: string): string => join(dataDirectory, 'tmp');

/** Removes temporary folders of a killed runner; called once, at the start of the data folder's only runner. */
export function clearTemporary(dataDirectory: string): void {
  rmSync(pathIn(dataDirectory), { recursive: true, force: true });
}

/** The private folder with this name, made if it does not exist. */
export function temporaryFolder(dataDirectory: string, name: string): string {
  const path = join(pathIn(dataDirectory), name);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}

/**
 * Makes an empty private folder for a piece of work, "<purpose>-XXXXXX" with mode 0700. Disposing removes it: `using
 * folder = makeTemporary(…)`.
 */
export function makeTemporary(dataDirectory: string, purpose: string): Disposable & { readonly path: string } {
  const parent = pathIn(dataDirectory);
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  const path = mkdtempSync(join(parent, `${purpose}-`));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
