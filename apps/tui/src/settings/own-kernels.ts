/** The list of the user's own kernel folders that fa-tui has sent to a runner, the latest first. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { FlashcoreError, KernelSchema } from '@flashcore/shared/contract';
import { MANIFEST_FILE, kernelMessage, loadManifest } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import * as z from 'zod';
import type { KernelFolders, ListedKernel } from '../state/listed-kernel.ts';
import { StateFile } from './state-file.ts';

const MOST_FOLDERS = 20;

const CONTENT = z.object({ folders: z.array(z.string()) });

export class OwnKernels implements KernelFolders {
  readonly #state: StateFile<z.infer<typeof CONTENT>>;

  constructor(environment: NodeJS.ProcessEnv) {
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
    return { kernels: await Promise.all(folders.map(kernelIn)), problem };
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

  readonly read = (folder: string): Promise<ListedKernel> => kernelIn(path.resolve(folder));
}

async function kernelIn(folder: string): Promise<ListedKernel> {
  try {
    return { ...kernelMessage(await loadManifest(folder)), folder };
  } catch (error) {
    if (!(error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST')) throw error;
    return { ...create(KernelSchema, { kernelId: path.basename(folder), manifestError: error.message }), folder };
  }
}
