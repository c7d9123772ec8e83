/** A kernel folder that a command makes. */
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { KERNEL_ID } from '@flashcore/shared/kernels';
import { UsageError } from '../usage-error.ts';

/** Refuses a missing parent folder, so that a mistyped path creates no tree of folders. */
export function requireFree(folder: string): void {
  if (existsSync(folder)) throw new UsageError(`${folder} exists already: give another name`);
  if (!existsSync(path.dirname(folder)))
    throw new UsageError(`There is no folder ${path.dirname(folder)}: make it, or give another place`);
}

export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    throw new UsageError(`${folder} cannot be made (${(error as NodeJS.ErrnoException).code}): give another place`);
  }
}

/** The folder's name is the kernel's id. */
export function idOfFolder(folder: string, name: string): string {
  const id = path.basename(folder);
  if (KERNEL_ID.pattern.test(id)) return id;
  const near = id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[^a-z]+|_+$/g, '')
    .slice(0, 64);
  throw new UsageError(
    `${name}: a kernel's name must be of ${KERNEL_ID.inWords}, beginning with a letter, for example ${near || 'my_kernel'}`,
  );
}
