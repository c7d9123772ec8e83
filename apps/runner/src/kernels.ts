import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  KernelSchema,
  SourceTreeSchema,
  asFlashcoreError,
  invalidRequest,
  type GitState,
  type Kernel,
  type KernelReference,
  type SourceFile,
  type SourceTree,
  type Variant,
} from '@flashcore/shared/contract';
import { readForeignText } from '@flashcore/shared/files';
import {
  MANIFEST_FILE,
  MAX_TREE_BYTES,
  NOTES_FILE,
  broughtFilesIn,
  codeDigest,
  isCurrentProblem,
  notesSaySomething,
  originalsIn,
  kernelMessage,
  parseManifest,
  readManifestText,
  requireSource,
  treeDigest,
  type Manifest,
} from '@flashcore/shared/kernels';
import { didYouMean, nearestNames } from '@flashcore/shared/text';
import type { BuildStore, SourceStore } from './store/sources.ts';
import { readTree } from './store/source-tree.ts';

/** A kernel that can be built, with its folder on this host and its manifest. */
export interface ResolvedKernel {
  kernelId: string;
  folder: string;
  manifest: Manifest;
  /** SHA-256 over the folder's files; equal content has an equal digest, wherever it came from. */
  sourceDigest: string;
  files: SourceFile[];
  /** Which of title, lesson and NOTES.md are missing. */
  undocumented: string[];
  /** The commit of an uploaded folder, as the client reports it. */
  git?: GitState | undefined;
  /** Set if the request named a build: its id and its variant. */
  build?: { id: string; variant: Variant };
}

/** Folders of kernels that are wrong on purpose. */
const FAULTY = ['faulty', 'cheating'] as const;
/** The form of a kernel id in manifests. */
const KERNEL_ID = /^\w+$/;
const MAX_NOTES_LENGTH = 128 * 1024;

/**
 * The kernels of this runner (kernels/<id>, kernels/faulty/<id>, kernels/cheating/<id>), and uploaded kernels. The
 * folders are read at each call, so that an edit takes effect at once.
 */
export class KernelCatalog {
  readonly #folder: string;
  readonly #sources: SourceStore;
  readonly #builds: BuildStore;
  /** Parsed manifests by text: parsing one takes longer than reading the files of all kernels. */
  readonly #parsed = new Map<string, Manifest>();

  constructor(folder: string, sources: SourceStore, builds: BuildStore) {
    this.#folder = folder;
    this.#sources = sources;
    this.#builds = builds;
  }

  /**
   * Kernels in the order of the ladder, then the faulty and the cheating ones by name. A kernel whose manifest can't be
   * read has only an id and `manifestError`.
   */
  list({ includeFaulty }: { includeFaulty: boolean }): Kernel[] {
    const ladder = orderLadder(this.#folders('.').map((path) => this.#describe(path)));
    const faulty = includeFaulty
      ? FAULTY.flatMap((parent) => this.#folders(parent)).map((path) => this.#describe(path))
      : [];
    return [...ladder, ...faulty];
  }

  /** Errors: KERNEL_NOT_FOUND with the nearest names. */
  requireKnown(kernelId: string): void {
    this.#find(kernelId);
  }

  /** The kernel's previous step on the ladder; undefined for a first step and for an unknown kernel. */
  after(kernelId: string): string | undefined {
    return this.#installed(kernelId)?.manifest.after;
  }

  /** Source digest of the runner's own kernel; undefined for an unknown kernel. */
  sourceDigestOf(kernelId: string): string | undefined {
    return this.#installed(kernelId)?.sourceDigest;
  }

  #installed(kernelId: string): ResolvedKernel | undefined {
    try {
      return this.#load(this.#find(kernelId));
    } catch (thrown) {
      if (!['INVALID_MANIFEST', 'KERNEL_NOT_FOUND'].includes(asFlashcoreError(thrown).reason)) throw thrown;
      return undefined;
    }
  }

  /** A kernel, the step before it, and so on down the ladder. */
  lineage({ kernelId, manifest }: Pick<ResolvedKernel, 'kernelId' | 'manifest'>): string[] {
    return this.#lineFrom(kernelId, manifest.after);
  }

  /** lineage() of a kernel that is given by id. */
  lineageOf(kernelId: string): string[] {
    return this.#lineFrom(kernelId, this.after(kernelId));
  }

  #lineFrom(kernelId: string, after: string | undefined): string[] {
    const line = [kernelId];
    for (let next = after; next !== undefined && !line.includes(next); next = this.after(next)) line.push(next);
    return line;
  }

  /**
   * Finds a kernel's folder, or writes it from an upload or a build. Errors: INVALID_REQUEST, KERNEL_NOT_FOUND,
   * BUILD_NOT_FOUND, INVALID_MANIFEST, SOURCES_MISSING, DIGEST_MISMATCH, DISK_FULL.
   */
  resolve(reference: KernelReference): ResolvedKernel {
    const { source } = reference;
    switch (source.case) {
      case 'kernelId':
        return this.#load(this.#find(source.value));
      case 'tree':
        return { ...this.#layOut(source.value), git: source.value.git };
      case 'buildId': {
        const known = this.#builds.find(source.value);
        if (!known)
          throw new FlashcoreError(
            'BUILD_NOT_FOUND',
            { build_id: source.value },
            `Unknown build_id ${source.value}: name one of a BuildResult of this runner`,
          );
        return { ...this.#layOut(known.tree), build: { id: source.value, variant: known.variant } };
      }
      case undefined:
        throw invalidRequest({ field: 'kernel.source', description: 'must be set: a kernel_id, a tree or a build_id' });
    }
  }

  /** Records the sources of a build, unless its folder has changed since. Errors: DISK_FULL. */
  keepBuild(buildId: string, { folder, files }: ResolvedKernel, variant: Variant): void {
    if (this.#sources.keepFiles(folder, files))
      this.#builds.keep(buildId, { tree: create(SourceTreeSchema, { files }), variant });
  }

  #layOut(tree: SourceTree): ResolvedKernel {
    const { folder, digest } = this.#sources.materialize(tree);
    const manifest = this.#parse(folder, MANIFEST_FILE);
    requireSource(folder, manifest);
    return {
      kernelId: manifest.id,
      folder,
      manifest,
      sourceDigest: digest,
      files: tree.files,
      undocumented: undocumented(manifest, folder),
    };
  }

  /** Folders with a manifest, by name, relative to kernels/. */
  #folders(parent: string): string[] {
    const root = join(this.#folder, parent);
    if (!existsSync(root)) return [];
    const names = readdirSync(root, { withFileTypes: true }).filter(
      (entry) => entry.isDirectory() && existsSync(join(root, entry.name, MANIFEST_FILE)),
    );
    return names.map(({ name }) => join(parent, name)).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  }

  #find(kernelId: string): string {
    // Tries the direct paths before listing all kernels. A direct path needs a plain name, so that it can't lead to
    // another folder.
    const direct = ['.', ...FAULTY].map((parent) => join(parent, kernelId));
    const known =
      KERNEL_ID.test(kernelId) && direct.find((path) => existsSync(join(this.#folder, path, MANIFEST_FILE)));
    if (known) return known;
    const paths = ['.', ...FAULTY].flatMap((parent) => this.#folders(parent));
    const path = paths.find((one) => basename(one) === kernelId);
    if (path) return path;
    const ids = paths.map((one) => basename(one));
    throw new FlashcoreError(
      'KERNEL_NOT_FOUND',
      { kernel_id: kernelId, nearest: nearestNames(kernelId, ids).join(',') },
      `Unknown kernel "${kernelId}"${didYouMean(kernelId, ids)}`,
    );
  }

  #load(path: string): ResolvedKernel {
    const folder = join(this.#folder, path);
    const shownPath = join('kernels', path, MANIFEST_FILE);
    const manifest = this.#parse(folder, shownPath);
    if (manifest.id !== basename(path)) {
      throw new FlashcoreError(
        'INVALID_MANIFEST',
        { path: shownPath, key: 'id' },
        `${shownPath}: id: must be the folder's name ${basename(path)}, got ${manifest.id}`,
      );
    }
    requireSource(folder, manifest);
    const files = readTree(folder, { which: 'sources', also: originalsIn(folder, manifest.source) });
    return {
      kernelId: manifest.id,
      folder,
      manifest,
      sourceDigest: treeDigest({ files }),
      files,
      undocumented: undocumented(manifest, folder),
    };
  }

  #parse(folder: string, shownPath: string): Manifest {
    const text = readManifestText(folder, shownPath);
    const brought = broughtFilesIn(folder);
    const key = JSON.stringify([shownPath, text, brought]);
    const known = this.#parsed.get(key);
    if (known && isCurrentProblem(known.problem)) return known;
    const manifest = parseManifest(text, shownPath, brought);
    if (this.#parsed.size >= 256) this.#parsed.clear();
    this.#parsed.set(key, manifest);
    return manifest;
  }

  #describe(path: string): Kernel {
    try {
      return kernelMessageOf(this.#load(path), { withFiles: false });
    } catch (thrown) {
      const error = asFlashcoreError(thrown);
      if (error.reason !== 'INVALID_MANIFEST') throw thrown;
      return create(KernelSchema, { kernelId: basename(path), manifestError: error.message });
    }
  }
}

/** Which documentation is missing. Notes with only the template's text are treated as missing. */
function undocumented({ title, lesson }: Manifest, folder: string): string[] {
  return [
    ...(title === '' ? ['title'] : []),
    ...(lesson === '' ? ['lesson'] : []),
    ...(!notesSaySomething(readNotes(folder)) ? [NOTES_FILE] : []),
  ];
}

/** A kernel as clients see it; `withFiles` adds the list of its files. */
export const kernelMessageOf = (
  { manifest, folder, sourceDigest, files }: ResolvedKernel,
  { withFiles }: { withFiles: boolean },
): Kernel =>
  kernelMessage(manifest, {
    sourceDigest,
    codeDigest: codeDigest({ files }),
    files: withFiles ? files : [],
    notes: readNotes(folder),
  });

/** The lab notes next to the manifest, "" if there are none; a file too long for a message is cut. */
function readNotes(folder: string): string {
  const path = join(folder, NOTES_FILE);
  return existsSync(path) ? readForeignText(path, MAX_TREE_BYTES).slice(0, MAX_NOTES_LENGTH) : '';
}

/**
 * Sorts each kernel right after the kernel that its `after` names, and the first steps of ladders by name. Kernels
 * whose `after` form a cycle are last.
 */
function orderLadder(kernels: Kernel[]): Kernel[] {
  const ids = new Set(kernels.map(({ kernelId }) => kernelId));
  const ordered = new Set<Kernel>();
  const place = (kernel: Kernel): void => {
    if (ordered.has(kernel)) return;
    ordered.add(kernel);
    kernels.filter(({ after }) => after === kernel.kernelId).forEach(place);
  };
  kernels.filter(({ after }) => after === undefined || !ids.has(after)).forEach(place);
  return [...ordered, ...kernels.filter((kernel) => !ordered.has(kernel))];
}
