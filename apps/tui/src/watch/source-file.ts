/**
 * Where a kernel's source lies on this machine: in the watched folder, beside the embedded runner, or as a copy of what
 * was compiled.
 */
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { readForeignFile } from '@flashcore/shared/files';
import { MAX_TREE_BYTES, loadManifest, sha256Of, type Manifest } from '@flashcore/shared/kernels';
import type { SourceTarget } from '../state/source-place.ts';

export interface SourceFile {
  readonly file: string;
  /** A copy of what the runner compiled: changing it changes nothing. */
  readonly isCopy: boolean;
}

export interface SourceSurroundings {
  /** The kernels of a runner on this machine. */
  readonly kernelsDirectory?: string | undefined;
  readonly readArtifact: (sha256: string) => Promise<Buffer>;
}

/** Undefined where there is none. Errors: as reading an artifact. */
export async function sourceFile(
  target: SourceTarget,
  { kernelsDirectory, readArtifact }: SourceSurroundings,
): Promise<SourceFile | undefined> {
  const { kernelId, folders, compiled } = target;
  const own = kernelFolder(kernelsDirectory, kernelId);
  const candidates = own === undefined ? folders : [...folders, own];
  const files = (await Promise.all(candidates.map((folder) => fileIn(folder, target)))).filter(
    (file) => file !== undefined,
  );
  // Several folders may have a kernel of this id: the one with the job's own source, else the likeliest.
  const file = files.find((found) => compiled?.sha256 === sha256Of(readForeignFile(found, MAX_TREE_BYTES))) ?? files[0];
  if (file !== undefined) return { file, isCopy: false };
  if (compiled === undefined) return undefined;
  // Editors show the folder's name: that changes are for nothing must be seen before they are made.
  const copy = path.join(mkdtempSync(path.join(tmpdir(), 'fa-tui-read-only-copy-')), path.basename(compiled.fileName));
  writeFileSync(copy, await readArtifact(compiled.sha256), { mode: 0o400 });
  return { file: copy, isCopy: true };
}

/** Folder of a runner's own kernel on this machine; undefined where it has none. */
export const kernelFolder = (kernelsDirectory: string | undefined, kernelId: string | undefined): string | undefined =>
  kernelsDirectory === undefined || kernelId === undefined
    ? undefined
    : ['', 'faulty', 'cheating']
        .map((group) => path.join(kernelsDirectory, group, kernelId))
        .find((folder) => existsSync(path.join(folder, 'kernel.yaml')));

/**
 * The file in a kernel folder, when it is that kernel's; of a folder whose manifest is broken the file that was asked
 * for by name.
 */
async function fileIn(folder: string, { kernelId, file }: SourceTarget): Promise<string | undefined> {
  if (!existsSync(path.join(folder, 'kernel.yaml'))) return undefined;
  const manifest = await readManifest(folder);
  if (manifest !== undefined && manifest.id !== kernelId) return undefined;
  const found = path.join(folder, file ?? manifest?.source ?? 'kernel.yaml');
  // A runner names files of the folder; what leads out of it is none.
  return found.startsWith(path.join(folder, path.sep)) && existsSync(found) ? found : undefined;
}

async function readManifest(folder: string): Promise<Manifest | undefined> {
  try {
    return await loadManifest(folder);
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST') return undefined;
    throw error;
  }
}
