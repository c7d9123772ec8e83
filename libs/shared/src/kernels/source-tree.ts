/** A kernel folder by content, in the form in which it is sent to a runner that does not have it. */
import { existsSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { sha256Of, type Sha256 } from '../contract/digest.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { parseYamlFile } from '../data/yaml-file.ts';
import { readForeignFile } from '../files/foreign-file.ts';
import { type SourceTree, SourceTreeSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import type { Manifest } from './manifest-model.ts';
import { isCubinSource, isPtxSource, isTritonSource, manifestSchema } from './manifest-schema.ts';
import { BROUGHT_FOLDER, BROUGHT_PATHS, ownProblemFiles } from '../problems/installed-problems.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { loadManifest, MANIFEST_FILE, readManifestText } from './manifest.ts';
import { originalsOfPtx } from './ptx-draft.ts';

export const MAX_TREE_FILES = 256;
export const MAX_TREE_BYTES = 8 * 1024 * 1024;
// Files that a translation unit can consist of, and its notes. Other files next to a kernel (profiles, keys) are not
// uploaded.
const SOURCE_NAME = /^(kernel\.yaml|NOTES\.md|[^.].*\.(cu|cuh|h|hh|hpp|hxx|inc|inl|ipp|ptx))$/;
const PYTHON_NAME = /^[^.].*\.py$/;
const ORIGINAL_OF_CUBIN = /^\w[\w.-]*\.(?:py|cu|cuh)$/;
/** Names that are uploaded only if the code names them, or if they are the manifest's source. */
const ORIGINAL_NAME = /^[^.].*\.(py|cubin)$/;
/** Whether a kernel's tree may have a file of this name. */
export const mayBeSource = (name: string): boolean => SOURCE_NAME.test(name) || ORIGINAL_NAME.test(name);
/** Whether a client uploads the file at this path of a kernel's folder. */
export const isSourcePath = (path: string): boolean =>
  SOURCE_NAME.test(path.slice(path.lastIndexOf('/') + 1)) || BROUGHT_PATHS.includes(path);
const MAX_DEPTH = 8;
const MAX_PATH_BYTES = 255;
export const NOTES_FILE = 'NOTES.md';

export interface LocalSourceTree {
  readonly tree: SourceTree;
  /** The files' bytes by digest. */
  readonly contents: ReadonlyMap<string, Uint8Array>;
}

/**
 * The digest of a whole tree: a hash over the path and digest of each file, sorted by path. Runner and client compute
 * the same digest.
 */
export function treeDigest({ files }: Pick<SourceTree, 'files'>): Sha256 {
  const lines = files
    .map(({ path, sha256 }) => `${sha256}  ${path}\n`)
    .sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1));
  return sha256Of(lines.join(''));
}

/** The digest of a tree without its notes: of what decides how a kernel behaves. */
export const codeDigest = ({ files }: Pick<SourceTree, 'files'>): Sha256 =>
  treeDigest({ files: files.filter(({ path }) => path !== NOTES_FILE) });

/**
 * Reads kernel.yaml, all sources below a folder, and the kernel's problem if it is the user's own. Errors:
 * INVALID_MANIFEST if the manifest or the problem is missing or wrong, INVALID_REQUEST if the folder is too large.
 */
export async function readSourceTree(folder: string): Promise<LocalSourceTree> {
  const { source, problem } = await loadManifest(folder);
  const contents = new Map<string, Uint8Array>();
  const files: { path: string; sha256: string; sizeBytes: bigint }[] = [];
  const problemFiles = new Map<string, Buffer>();
  for (const [name, text] of Object.entries({ ...(problem.brought ?? ownProblemFiles(problem.id)) }))
    if (text !== undefined) problemFiles.set(`${BROUGHT_FOLDER}/${name}`, Buffer.from(text));
  let bytes = 0;
  const paths = [...(await sourcePaths(folder, '', 0)), ...originalsIn(folder, source), ...problemFiles.keys()].sort();
  for (const path of paths) {
    const content = problemFiles.get(path) ?? (await contentOf(folder, path, MAX_TREE_BYTES - bytes));
    const sha256 = sha256Of(content);
    bytes += content.length;
    contents.set(sha256, content);
    files.push({ path, sha256, sizeBytes: BigInt(content.length) });
  }
  return { tree: create(SourceTreeSchema, { files }), contents };
}

/** The source if it is Python or a cubin, and the Python files that PTX or a cubin was compiled from. */
export function originalsIn(folder: string, source: string): string[] {
  if (!existsSync(join(folder, source))) return [];
  if (isTritonSource(source)) return [source];
  if (!isPtxSource(source) && !isCubinSource(source)) return [];
  const own = isCubinSource(source) ? [source] : [];
  // The code that reads the source reports that it is too large.
  if (statSync(join(folder, source)).size > MAX_TREE_BYTES) return own;
  const code = readForeignFile(join(folder, source), MAX_TREE_BYTES);
  const names = isCubinSource(source)
    ? originalsOfCubin(code.toString('latin1'))
    : originalsOfPtx(code.toString('utf8'));
  return [...own, ...names.filter((name) => PYTHON_NAME.test(name) && existsSync(join(folder, name)))];
}

/** Files that a cubin's debug information names, from its bytes as Latin-1. */
export const originalsOfCubin = (code: string): string[] => [
  ...new Set(code.split('\0').filter((name) => name.length <= MAX_PATH_BYTES && ORIGINAL_OF_CUBIN.test(name))),
];

/**
 * A source's bytes, from a folder that others may have made. Errors: INVALID_REQUEST for a link to a non-source file.
 */
export const readSourceFile = (folder: string, name: string): Promise<Buffer> =>
  contentOf(folder, name, MAX_TREE_BYTES);

/**
 * The lab notes of a kernel folder; "" if it has none. Errors: INVALID_REQUEST if they are a link to another file, or
 * too large.
 */
export async function readNotes(folder: string): Promise<string> {
  const found = lstatSync(join(folder, NOTES_FILE), { throwIfNoEntry: false });
  // As among a folder's sources, only files and links to files are read.
  return found?.isFile() || found?.isSymbolicLink()
    ? (await contentOf(folder, NOTES_FILE, MAX_TREE_BYTES)).toString('utf8')
    : '';
}

const contentOf = async (folder: string, path: string, most: number): Promise<Buffer> =>
  readForeignFile(await sourceFile(folder, path, most), most);

/**
 * The real path of a file of at most `most` bytes. A folder made by somebody else may contain links. A link's target
 * must have the name of a source, so it is never a key, a device or a pipe.
 */
async function sourceFile(folder: string, path: string, most: number): Promise<string> {
  const file = await realpath(join(folder, path)).catch((cause: unknown) => {
    throw badLink(folder, path, 'it leads nowhere', cause);
  });
  if (!mayBeSource(basename(file))) throw badLink(folder, path, `it leads to ${basename(file)}`);
  const found = await stat(file);
  if (!found.isFile()) throw badLink(folder, path, 'it does not lead to a file');
  if (found.size > most) throw tooLarge(folder, `at most ${MAX_TREE_BYTES / 2 ** 20} MiB of sources`);
  return file;
}

const badLink = (folder: string, path: string, found: string, cause?: unknown) =>
  new FlashcoreError(
    'INVALID_REQUEST',
    { path: join(folder, path) },
    `Kernel folder ${folder}: ${path} is a link that must lead to a source file, and ${found}: put the file in its place`,
    { cause, violations: [{ field: 'kernel.tree', description: `${path} must lead to a source file` }] },
  );

async function sourcePaths(folder: string, below: string, depth: number): Promise<string[]> {
  const paths: string[] = [];
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules' && depth < MAX_DEPTH)
      paths.push(...(await sourcePaths(folder, path, depth + 1)));
    // Links to source files are treated as files. Links to folders are ignored because they could lead anywhere.
    else if (
      (entry.isFile() || entry.isSymbolicLink()) &&
      SOURCE_NAME.test(entry.name) &&
      (entry.name !== MANIFEST_FILE || below === '')
    ) {
      requirePlainName(folder, path);
      paths.push(path);
    }
    if (paths.length > MAX_TREE_FILES) throw tooLarge(folder, `at most ${MAX_TREE_FILES} source files`);
  }
  return paths;
}

/** Throws INVALID_REQUEST for a name that no runner accepts. Node reads invalid UTF-8 as "\ufffd". */
function requirePlainName(folder: string, path: string): void {
  if (!/[\u0000-\u001f\u007f\\\ufffd]/.test(path) && Buffer.byteLength(path) <= MAX_PATH_BYTES) return;
  const wanted = `at most ${MAX_PATH_BYTES} bytes of UTF-8, without control characters and backslashes`;
  throw new FlashcoreError(
    'INVALID_REQUEST',
    { path: join(folder, path) },
    `Kernel folder ${folder}: rename ${JSON.stringify(path)}: a source's path must have ${wanted}`,
    { violations: [{ field: 'kernel.tree', description: `a path must have ${wanted}` }] },
  );
}

const tooLarge = (folder: string, limit: string) =>
  new FlashcoreError('INVALID_REQUEST', { path: folder }, `Kernel folder ${folder}: must have ${limit}`, {
    violations: [{ field: 'kernel.tree', description: limit }],
  });

/**
 * Checks that a kernel's folder has the source that its manifest names. Errors: INVALID_MANIFEST with the manifest's
 * line.
 */
export function requireSource(folder: string, { path, source }: Pick<Manifest, 'path' | 'source'>): void {
  if (existsSync(join(folder, source))) return;
  const file = parseYamlFile(readManifestText(folder, path), path, manifestSchema);
  const sources = readdirSync(folder)
    .filter((name) => mayBeSource(name) && !/\.(md|yaml)$/.test(name))
    .toSorted();
  const remedy =
    didYouMean(source, sources) || (sources.length === 0 ? ': it has no source' : `: it has ${sources.join(', ')}`);
  throw file.refuse([{ key: ['source'], message: `must be a file of the kernel's folder, got "${source}"${remedy}` }]);
}
