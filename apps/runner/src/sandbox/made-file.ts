import { lstatSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';

/**
 * The size of a file that a boxed program should have made, checked before the runner reads it: a link in its place
 * would be followed with the runner's rights, and reading a pipe might never end. Errors: INTERNAL.
 */
export function sizeOfMade(path: string): number {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return found.size;
  throw new FlashcoreError(
    'INTERNAL',
    {},
    `A tool said that it was done and left ${found ? 'no file' : 'nothing'} where its result was to be: look at the tool's own messages`,
  );
}
