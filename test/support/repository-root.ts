import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Finds the folder above this file that contains kernels/ and apps/, in the repository and in the GPU host's bundle.
 */
export function repositoryRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'kernels/cases.yaml'))) {
    if (folder === dirname(folder)) throw new Error('Wanted kernels/cases.yaml in a folder above this program');
    folder = dirname(folder);
  }
  return folder;
}
