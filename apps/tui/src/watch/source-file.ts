/**
 * Finds a kernel's files on this machine: in a user's folder, among the embedded runner's kernels, or as a copy to
 * read.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FlashcoreError, type Artifact } from '@flashcore/shared/contract';
import { readForeignFile } from '@flashcore/shared/files';
import { MAX_TREE_BYTES, loadManifest, sha256Of, type Manifest } from '@flashcore/shared/kernels';
import type { SourceTarget } from '../state/source-place.ts';

/** The file in the first folder of this machine that has the kernel; undefined if no folder has it. */
export async function localSource(
  { kernelId, folders, file, compiled }: SourceTarget,
  kernelsDirectory: string | undefined,
): Promise<string | undefined> {
  const own = kernelFolder(kernelsDirectory, kernelId);
  const candidates = own === undefined ? folders : [...folders, own];
  const files = (await Promise.all(candidates.map((folder) => fileIn(folder, { kernelId, file })))).filter(
    (found) => found !== undefined,
  );
  // Several folders may have a kernel with this id. If none of them contains the source that the job compiled, the
  // first one is used.
  return files.find((found) => compiled?.sha256 === sha256Of(readForeignFile(found, MAX_TREE_BYTES))) ?? files[0];
}

/** A copy of the source that the runner compiled; changing it has no effect. Errors: those of `readArtifact`. */
export async function compiledCopy(
  compiled: Artifact,
  readArtifact: (sha256: string) => Promise<Buffer>,
): Promise<string> {
  return readOnlyCopy(compiled.fileName, await readArtifact(compiled.sha256));
}

/** Folders of copies, which are removed when this program ends. */
const copies: string[] = [];

/** A file that the user can read in the editor until this program ends; changing it has no effect. */
export function readOnlyCopy(fileName: string, content: string | Uint8Array): string {
  // Editors show the folder's name, so the user sees before editing that edits will be lost.
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-tui-read-only-copy-'));
  if (copies.push(folder) === 1)
    process.once('exit', () => copies.forEach((each) => rmSync(each, { recursive: true, force: true })));
  const copy = path.join(folder, path.basename(fileName));
  writeFileSync(copy, content, { mode: 0o400 });
  return copy;
}

/** The folder on this machine with one of the runner's own kernels; undefined if there is none. */
export const kernelFolder = (kernelsDirectory: string | undefined, kernelId: string | undefined): string | undefined =>
  kernelsDirectory === undefined || kernelId === undefined
    ? undefined
    : ['', 'faulty', 'cheating']
        .map((group) => path.join(kernelsDirectory, group, kernelId))
        .find((folder) => existsSync(path.join(folder, 'kernel.yaml')));

/**
 * The requested file, or by default the manifest's source, if the folder has it; undefined if the folder is another
 * kernel's.
 */
async function fileIn(
  folder: string,
  { kernelId, file }: Pick<SourceTarget, 'kernelId' | 'file'>,
): Promise<string | undefined> {
  if (!existsSync(path.join(folder, 'kernel.yaml'))) return undefined;
  const manifest = await readManifest(folder);
  if (manifest !== undefined && manifest.id !== kernelId) return undefined;
  const found = path.join(folder, file ?? manifest?.source ?? 'kernel.yaml');
  // A runner should name files in the folder; a path that leads out of it is ignored.
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
