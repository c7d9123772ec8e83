import { FlashcoreError, type Shape } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { parseHeldOut } from '@flashcore/shared/kernels';
import { UsageError } from './usage-error.ts';

/** The shapes in the host's file, which clients never see; none if there is no file. Errors: UsageError. */
export function readHeldOut(path: string | undefined): readonly Shape[] {
  if (path === undefined) return [];
  try {
    return parseHeldOut(readForeignText(path, HAND_WRITTEN_BYTES), path);
  } catch (error) {
    if (error instanceof FlashcoreError) throw new UsageError(`--held-out ${path}: ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`--held-out ${path}: cannot be read (${whyUnreadable(error)})`);
  }
}
