import type { Kernel } from '@flashcore/shared/contract';

/** A kernel of the runner, or of a folder on this machine. */
export type ListedKernel = Kernel & {
  /** Absolute path; absent: the kernel is the runner's own. */
  readonly folder?: string;
};

/** The kernel folders of the user's own that fa-tui knows. */
export interface KernelFolders {
  /** Those that still exist, the latest first; `problem`: a message about a list that cannot be read. */
  readonly list: () => Promise<{ readonly kernels: readonly ListedKernel[]; readonly problem?: string | undefined }>;
  /** Puts a folder at the head of the list; a message where the list cannot be written. */
  readonly remember: (folder: string) => string | undefined;
  /** A folder's kernel; a manifest that cannot be read is the kernel's `manifestError`. */
  readonly read: (folder: string) => Promise<ListedKernel>;
}

/** Names one kernel among all that are listed: a folder's path, else the id. */
export const kernelKey = ({ kernelId, folder }: Pick<ListedKernel, 'kernelId' | 'folder'>): string =>
  folder ?? kernelId;
