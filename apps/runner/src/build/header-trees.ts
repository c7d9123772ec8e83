/**
 * Headers of the host that kernels may include in addition to CUDA's and the repository's: `serve --headers
 * cutlass=PATH`.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '@flashcore/shared/contract';

export interface NamedFolder {
  readonly name: string;
  /** Real path of the include folder. */
  readonly folder: string;
}

export interface HeaderTree extends NamedFolder {
  /** SHA-256 over paths and contents. */
  readonly digest: string;
}

// CUTLASS 4 has about 900 headers, of 25 MiB in total.
const MAX_FILES = 20_000;
const MAX_BYTES = 256 * 1024 ** 2;
const MAX_DEPTH = 32;
const NAME = /^[a-z][a-z0-9_-]{0,31}$/;

/**
 * Parses `name=folder` texts. Errors: UsageError if a name or a folder is wrong, a name is given twice, or a tree is
 * too large.
 */
export function parseHeaderTrees(texts: readonly string[]): NamedFolder[] {
  const trees = texts.map((text) => {
    const [name, folder] = splitOnce(text);
    if (!NAME.test(name) || folder === '')
      throw new UsageError(`--headers ${text}: must be a name and a folder, for example cutlass=/opt/cutlass/include`);
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new UsageError(`--headers ${text}: must name a folder, and ${folder} is not one`);
    return { name, folder: realpathSync(folder) };
  });
  const twice = trees.find(({ name }, index) => trees.some((other, at) => at < index && other.name === name));
  if (twice) throw new UsageError(`--headers: must name each tree once, ${twice.name} is named twice`);
  return trees;
}

function splitOnce(text: string): [string, string] {
  const at = text.indexOf('=');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

/** The current contents of the trees. A tree is read again if the size or time of one of its files has changed. */
export class HeaderTrees {
  readonly #named: readonly NamedFolder[];
  readonly #read = new Map<string, { signature: string; digest: string }>();

  constructor(named: readonly NamedFolder[]) {
    this.#named = named;
  }

  /** Errors: UsageError if a tree has become too large or can't be read. */
  now(): HeaderTree[] {
    return this.#named.map((tree) => ({ ...tree, digest: this.#digest(tree) }));
  }

  #digest({ name, folder }: NamedFolder): string {
    const files = filesBelow(name, folder);
    const signature = JSON.stringify(files);
    const known = this.#read.get(name);
    if (known?.signature === signature) return known.digest;
    const hash = createHash('sha256');
    for (const { path } of files) {
      const text = readFileSync(join(folder, path));
      hash.update(`${path}\0${text.length}\0`).update(text);
    }
    const digest = hash.digest('hex');
    this.#read.set(name, { signature, digest });
    return digest;
  }
}

interface TreeFile {
  path: string;
  bytes: number;
  changedMs: number;
}

/** Plain files, sorted by path. Links are left out, because most targets do not exist inside a compiler's sandbox. */
function filesBelow(name: string, folder: string): TreeFile[] {
  const files: TreeFile[] = [];
  let bytes = 0;
  const visit = (below: string, depth: number): void => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory() && depth < MAX_DEPTH) visit(path, depth + 1);
      if (!entry.isFile()) continue;
      const { size, mtimeMs } = statSync(join(folder, path));
      bytes += size;
      files.push({ path, bytes: size, changedMs: mtimeMs });
      if (files.length > MAX_FILES || bytes > MAX_BYTES)
        throw new UsageError(
          `--headers ${name}=${folder}: must have at most ${MAX_FILES} files of ${MAX_BYTES / 2 ** 20} MiB together; name the include folder alone`,
        );
    }
  };
  visit('', 0);
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Placeholder in arguments for a tree's folder, whose path must not appear in digests and shown arguments. */
export const headersPlace = (name: string): string => `@headers/${name}@`;

/** The arguments with placeholders replaced by the trees' folders. */
export const withHeaderFolders = (args: readonly string[], trees: readonly HeaderTree[] = []): string[] =>
  args.map((arg) => trees.find(({ name }) => arg === headersPlace(name))?.folder ?? arg);
