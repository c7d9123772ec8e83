import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import { KernelReferenceSchema, type KernelReference } from '@flashcore/shared/contract';
import { loadManifest } from '@flashcore/shared/kernels';
import { runnerKernels } from '../connection/data-directory.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import { findProject } from '../settings/project.ts';
import { UsageError } from '../exit-code.ts';

/** A kernel on the command line: a kernel of the runner, an earlier build, or a user's folder. */
export type KernelArgument =
  | { readonly kind: 'build'; readonly id: string }
  | {
      readonly kind: 'id';
      readonly id: string;
      /** Why the list of the user's folders, which may have had the id, could not be read. */
      readonly listProblem?: string | undefined;
    }
  | {
      readonly kind: 'folder';
      readonly folder: string;
      readonly id: string;
      /** True if the folder was given by a plain name, which could also be the name of one of the runner's kernels. */
      readonly byName?: boolean;
    };

/**
 * Reads a kernel argument. 64 hexadecimal digits are a build_id. A text with a path separator is a folder, and so is
 * the name of a folder with a kernel.yaml in the current folder or in the project's folder of kernels, and the id of a
 * folder that view 7 lists. The manifest is checked here, so that a mistake is reported before a runner is contacted.
 * Errors: UsageError, INVALID_MANIFEST with path and key.
 */
export async function parseKernelArgument(text: string, environment = process.env): Promise<KernelArgument> {
  if (/^[0-9a-f]{64}$/.test(text)) return { kind: 'build', id: text };
  const isPath = /[/\\]/.test(text) || text === '.' || text === '..';
  const named = isPath ? path.resolve(text) : kernelFolderNamed(text);
  const { folder, listProblem }: OwnFolder =
    named === undefined ? await ownFolder(text, environment) : { folder: named };
  if (folder === undefined) return { kind: 'id', id: text, listProblem };
  if (!existsSync(folder))
    throw new UsageError(`${folder} does not exist: give a kernel's id, or a folder with a kernel.yaml`);
  if (!statSync(folder).isDirectory())
    throw new UsageError(`${folder} is a file: give the folder with its kernel.yaml`);
  const { id } = await loadManifest(folder);
  return { kind: 'folder', folder, id, byName: !isPath };
}

/** The kernel folder with this name, in the current folder or else in the project's folder of kernels. */
export const kernelFolderNamed = (name: string): string | undefined =>
  [process.cwd(), findProject(process.cwd())?.kernels]
    .flatMap((parent) => (parent === undefined ? [] : path.join(parent, name)))
    .find((folder) => existsSync(path.join(folder, 'kernel.yaml')));

interface OwnFolder {
  readonly folder?: string | undefined;
  readonly listProblem?: string | undefined;
}

/**
 * The folder that this machine sent to a runner as the kernel with this id; without a folder if there is none, or if an
 * installed kernel has the id. Errors: UsageError if several folders have the id.
 */
async function ownFolder(id: string, environment: NodeJS.ProcessEnv): Promise<OwnFolder> {
  if (existsSync(path.join(runnerKernels(), id, 'kernel.yaml'))) return {};
  const { kernels, problem: listProblem } = await new OwnKernels(environment).list();
  const folders = kernels.flatMap(({ kernelId, folder }) => (kernelId === id && folder !== undefined ? [folder] : []));
  if (folders.length > 1)
    throw new UsageError(`${id}: several of your folders have this id; give one of them: ${folders.join(', ')}`);
  return { folder: folders[0], listProblem };
}

/**
 * A notice about a misleading name, or about a list of names that could not be read; empty if the name is clear. A
 * project folder may have the name of one of the runner's kernels. A copied folder may still have the original's id,
 * and its results would silently join the original's history.
 */
export function otherName(kernel: KernelArgument): string {
  if (kernel.kind === 'id' && kernel.listProblem !== undefined)
    return `${kernel.listProblem}. If ${kernel.id} is a kernel of yours, give its folder, which lists it again`;
  if (kernel.kind !== 'folder') return '';
  if (path.basename(kernel.folder) === kernel.id)
    return kernel.byName ? `${kernel.id}: the folder ${kernel.folder}` : '';
  return `The folder ${path.basename(kernel.folder)} runs as ${kernel.id}, which its kernel.yaml gives as id: results and history have it under that name`;
}

/**
 * The kernel's reference for a request. If the kernel is a folder, uploads the files that the runner does not have yet.
 */
export async function kernelReference(kernel: KernelArgument, client: RunnerClient): Promise<KernelReference> {
  return kernel.kind === 'folder' ? client.uploadFolder(kernel.folder) : storedReference(kernel);
}

/** The reference of a kernel that the runner already has. */
export function storedReference({ kind, id }: Exclude<KernelArgument, { kind: 'folder' }>): KernelReference {
  return create(KernelReferenceSchema, { source: { case: kind === 'build' ? 'buildId' : 'kernelId', value: id } });
}
