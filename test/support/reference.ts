/** The CPU reference, compiled here or reused from earlier tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BuildTools, TEST_HOST, loadReference, type Reference } from '@flashcore/runner/testing';
import { ROOT } from './home.ts';

/** Time limit for compiling the reference. */
export const REFERENCE_LIMIT_MS = 120_000;

export const compiledReference = async (): Promise<Reference> => loadReference(await referenceLibrary());

/** The reference's library, as runners load it. */
export async function referenceLibrary(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-reference-'));
  try {
    const tools = new BuildTools({
      repositoryRoot: ROOT,
      dataDirectory: folder,
      ...TEST_HOST,
    });
    return await tools.libraries.reference({ signal: AbortSignal.timeout(REFERENCE_LIMIT_MS) });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
