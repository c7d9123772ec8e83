import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError } from '@flashcore/shared/contract';
import { readForeignText } from '@flashcore/shared/files';
import { entryOf } from '@flashcore/shared/text';
import {
  BROUGHT_PATHS,
  MANIFEST_FILE,
  MAX_TREE_BYTES,
  broughtFiles,
  isCubinSource,
  mayBeSource,
  parseManifest,
  readSourceTree,
  type Manifest,
} from '@flashcore/shared/kernels';

/** Text files of a kernel folder, by path. */
export type SourceFiles = Readonly<Record<string, string>>;

/** Limit on the total size of the files, which are sent to a proposer and returned. */
export const MAX_SOURCE_BYTES = 100 * 1024;

/** A kernel with readable sources. */
export type SourcePlace =
  { readonly kind: 'id' | 'build'; readonly id: string } | { readonly kind: 'folder'; readonly folder: string };

/**
 * The files of a user's folder, of a kernel of the runner, or of a stored build. Errors: INVALID_MANIFEST,
 * KERNEL_NOT_FOUND, BUILD_NOT_FOUND.
 */
export async function readSource(kernel: SourcePlace, client: RunnerClient): Promise<SourceFiles> {
  if (kernel.kind === 'folder') return sourceOfFolder(kernel.folder);
  const { kernel: known } = await client.getKernel(
    kernel.kind === 'build' ? { buildId: kernel.id } : { kernelId: kernel.id },
  );
  const files = new Map<string, string>();
  requireText((known?.files ?? []).map(({ path: name }) => name));
  for (const { path: name, sha256 } of known?.files ?? [])
    files.set(name, (await client.readArtifact(sha256)).toString('utf8'));
  return Object.fromEntries(files);
}

/**
 * The files of a folder without those of an installed problem: a kernel made from the files finds an installed problem
 * by its id.
 */
export async function sourceOfFolder(folder: string): Promise<SourceFiles> {
  const { tree, contents } = await readSourceTree(folder);
  const files = tree.files.filter(({ path: name }) => existsSync(path.join(folder, name)));
  requireText(files.map(({ path: name }) => name));
  return Object.fromEntries(
    files.map(({ path: name, sha256 }) => [name, Buffer.from(contents.get(sha256)!).toString('utf8')]),
  );
}

/** Errors: INVALID_REQUEST for machine code, which nobody can edit as text. */
function requireText(names: readonly string[]): void {
  const code = names.find(isCubinSource);
  if (code !== undefined)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { path: code },
      `${code} is machine code: copy the folder by hand and change the id in its ${MANIFEST_FILE}`,
    );
}

/**
 * Writes files as a new kernel folder and removes the old one, if there is one. Paths are checked because they come
 * from a proposer.
 */
export function writeSource(folder: string, files: SourceFiles): void {
  rmSync(folder, { recursive: true, force: true });
  for (const [name, text] of Object.entries(files)) {
    requireKernelPath(name);
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

/** Like requireSourcePath(), but also accepts the files of a problem in the kernel's folder. */
export function requireKernelPath(name: string): void {
  if (!BROUGHT_PATHS.includes(name)) requireSourcePath(name);
}

/** Errors: INVALID_REQUEST if the path leads out of the folder or to a file that is not a source. */
export function requireSourcePath(name: string): void {
  const parts = name.split('/');
  const good =
    name.length <= 200 &&
    parts.every((part) => /^[\w][\w.-]*$/.test(part)) &&
    (name === MANIFEST_FILE || (mayBeSource(parts.at(-1)!) && parts.at(-1) !== MANIFEST_FILE));
  if (!good)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { path: name },
      `${JSON.stringify(name.slice(0, 80))}: must be ${MANIFEST_FILE} or a .cu, .cuh, .h or .ptx file, relative to the kernel's folder, of letters, digits, "_", "-" and "."`,
    );
}

/** The manifest among the files. Errors: INVALID_MANIFEST. */
export function manifestOf(files: SourceFiles): Manifest {
  const text = files[MANIFEST_FILE];
  if (text === undefined)
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { path: MANIFEST_FILE },
      `There is no ${MANIFEST_FILE} among the files`,
    );
  return parseManifest(
    text,
    MANIFEST_FILE,
    broughtFiles((name) => entryOf(files, name)),
  );
}

/** Replaces a kernel's translation unit by a single .cu file. */
export function withTranslationUnit(base: SourceFiles, file: string): SourceFiles {
  return { ...base, [manifestOf(base).source]: readForeignText(file, MAX_TREE_BYTES) };
}

export const sourceBytes = (files: SourceFiles): number =>
  Object.values(files).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
