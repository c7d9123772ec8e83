import type { Kernel } from '@flashcore/shared/contract';

/** A kernel of the runner, or of a folder on this machine. */
export type ListedKernel = Kernel & {
  /** Absolute path; absent if the kernel is the runner's own. */
  readonly folder?: string;
};

/** The user's own kernel folders that fa-tui knows. */
export interface KernelFolders {
  /** Folders that still exist, the latest first; `problem` is a message about a list that cannot be read. */
  readonly list: () => Promise<{ readonly kernels: readonly ListedKernel[]; readonly problem?: string | undefined }>;
  /** Puts a folder at the head of the list; returns a message if the list cannot be written. */
  readonly remember: (folder: string) => string | undefined;
  /** Reads a folder's kernel; if the manifest cannot be read, the kernel has a `manifestError`. */
  readonly read: (folder: string) => Promise<ListedKernel>;
}

/** Key of a kernel, unique among all that are listed: the folder's path, else the id. */
export const kernelKey = ({ kernelId, folder }: Pick<ListedKernel, 'kernelId' | 'folder'>): string =>
  folder ?? kernelId;
