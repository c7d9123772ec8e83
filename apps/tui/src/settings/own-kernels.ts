/** The list of the user's own kernel folders that fa-tui has sent to a runner. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { FlashcoreError, KernelSchema, type SourceTree } from '@flashcore/shared/contract';
import {
  MANIFEST_FILE,
  codeDigest,
  kernelMessage,
  loadManifest,
  readNotes,
  readSourceTree,
} from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import * as z from 'zod';
import type { KernelFolders, ListedKernel } from '../state/listed-kernel.ts';
import { StateFile } from './state-file.ts';

/** The folders that ran last are kept. */
const MOST_FOLDERS = 20;

const CONTENT = z.object({ folders: z.array(z.string()) });

export class OwnKernels implements KernelFolders {
  readonly #known = new Map<string, KnownFolder>();
  readonly #state: StateFile<z.infer<typeof CONTENT>>;

  /** The folder of the installation's example kernels. */
  readonly #examples: string | undefined;

  constructor(environment: NodeJS.ProcessEnv, examples?: string) {
    this.#examples = examples;
    this.#state = new StateFile({
      environment,
      name: 'fa-tui-folders.json',
      version: 1,
      schema: CONTENT,
      empty: { folders: [] },
      about: 'The list of your kernel folders',
    });
  }

  readonly list: KernelFolders['list'] = async () => {
    const { content, problem } = this.#state.read();
    const folders = content.folders.filter((folder) => existsSync(path.join(folder, MANIFEST_FILE)));
    const kernels = await Promise.all(folders.map((folder) => this.#kernelIn(folder)));
    return { kernels: kernels.toSorted(inListOrder), problem };
  };

  readonly remember = (folder: string): string | undefined => {
    const absolute = path.resolve(folder);
    try {
      this.#state.write(({ folders }) => ({
        folders: [absolute, ...folders.filter((other) => other !== absolute)].slice(0, MOST_FOLDERS),
      }));
      return undefined;
    } catch (error) {
      // This is only a message, because a run must not fail just because its folder cannot be listed later.
      return `${absolute} will not be listed in view 7: ${errorText(error)}`;
    }
  };

  readonly read = (folder: string): Promise<ListedKernel> => this.#kernelIn(path.resolve(folder));

  /** Returns the same object as before if no file has changed. */
  async #kernelIn(folder: string): Promise<ListedKernel> {
    const known = this.#known.get(folder);
    if (known !== undefined && known.stamp === stampOf(known.files)) return known.kernel;
    const { kernel: read, paths } = await kernelIn(folder);
    const isExample = this.#examples !== undefined && path.dirname(folder) === path.resolve(this.#examples);
    const kernel = isExample ? { ...read, isExample } : read;
    const files = [
      folder,
      ...paths.flatMap((file) => [path.join(folder, path.dirname(file)), path.join(folder, file)]),
    ];
    this.#known.set(folder, { kernel, files, stamp: stampOf(files) });
    return kernel;
  }
}

/** The user's own come first, then examples; each by id, because a run must not move the row under the cursor. */
const inListOrder = (a: ListedKernel, b: ListedKernel): number =>
  Number(a.isExample ?? false) - Number(b.isExample ?? false) ||
  a.kernelId.localeCompare(b.kernelId, 'en', { numeric: true }) ||
  (a.folder ?? '').localeCompare(b.folder ?? '');

interface KnownFolder {
  readonly kernel: ListedKernel;
  /** The folder, the kernel's files and their folders. */
  readonly files: readonly string[];
  readonly stamp: string;
}

/** Changes with the content of the files, as far as their times and sizes tell. */
const stampOf = (files: readonly string[]): string =>
  files
    .map((file) => statSync(file, { throwIfNoEntry: false }))
    .map((found) => (found === undefined ? '-' : `${found.mtimeMs}:${found.size}:${found.ino}`))
    .join(' ');

interface ReadFolder {
  readonly kernel: ListedKernel;
  readonly paths: readonly string[];
}

async function kernelIn(folder: string): Promise<ReadFolder> {
  try {
    const manifest = await loadManifest(folder);
    const tree = await treeIn(folder);
    const code = tree === undefined ? '' : codeDigest(tree);
    const paths = tree?.files.map((file) => file.path) ?? [MANIFEST_FILE];
    const notes = tree === undefined ? '' : await readNotes(folder);
    return { kernel: { ...kernelMessage(manifest), codeDigest: code, notes, folder }, paths };
  } catch (error) {
    const message = refusalOf(error);
    const kernel = create(KernelSchema, { kernelId: path.basename(folder), manifestError: message });
    return { kernel: { ...kernel, folder }, paths: [MANIFEST_FILE] };
  }
}

/** Undefined if the folder's files are not ones that could be sent to a runner, for example if they are too large. */
async function treeIn(folder: string): Promise<SourceTree | undefined> {
  try {
    return (await readSourceTree(folder)).tree;
  } catch (error) {
    if (!(error instanceof FlashcoreError && error.reason === 'INVALID_REQUEST')) throw error;
    return undefined;
  }
}

/** The message of a refused manifest. Throws any other error. */
function refusalOf(error: unknown): string {
  if (!(error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST')) throw error;
  return error.message;
}
