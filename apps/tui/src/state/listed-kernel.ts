import { FindingKind, type Device, type Host, type Job, type Kernel } from '@flashcore/shared/contract';
import { archMismatch, nearestOf } from '@flashcore/shared/kernels';
import { jobTitle } from '../present/words.ts';

export type KernelParameter = Kernel['parameters'][number];

/** A kernel of the runner, or of a folder on this machine. */
export type ListedKernel = Kernel & {
  /** Absolute path; absent if the kernel is the runner's own. */
  readonly folder?: string;
  /** True for an example that came with the installation: it is not the user's to edit. */
  readonly isExample?: boolean;
};

/** The user's own kernel folders that fa-tui knows. */
export interface KernelFolders {
  /** Folders that still exist, in an order that no run changes. `problem`: the list cannot be read. */
  readonly list: () => Promise<{ readonly kernels: readonly ListedKernel[]; readonly problem?: string | undefined }>;
  /** Puts a folder at the top of the list. Returns a message if the list cannot be written. */
  readonly remember: (folder: string) => string | undefined;
  /** Reads a folder's kernel. If its manifest cannot be read, the kernel has a `manifestError`. */
  readonly read: (folder: string) => Promise<ListedKernel>;
}

/** Key of a kernel, unique among all listed kernels: the folder's path, or else the id. */
export const kernelKey = ({ kernelId, folder }: Pick<ListedKernel, 'kernelId' | 'folder'>): string =>
  folder ?? kernelId;

/** True for a kernel that is faulty on purpose: a run of it must fail. */
export const isFaulty = ({ expectedFinding }: Pick<Kernel, 'expectedFinding'>): boolean =>
  expectedFinding !== FindingKind.UNSPECIFIED;

/** True if the notes can be opened: a user's folder can get notes, and the runner's kernels must have some. */
export const hasNotes = (kernel: ListedKernel | undefined): boolean =>
  kernel !== undefined && kernel.manifestError === undefined && (kernel.folder !== undefined || kernel.notes !== '');

/** The device of a run that does not name one. */
export const usualDevice = (host: Host | undefined): Device | undefined => host?.devices[0];

/** The parameter's value in a run on this device that does not choose one. */
export function usualParameter(
  { values, defaultValue, ofDevice }: KernelParameter,
  device: Device | undefined,
): string {
  if (device === undefined || ofDevice !== 'multiprocessors') return String(defaultValue);
  return String(nearestOf([defaultValue, ...values].map(Number), device.multiprocessors));
}

/** A job's title for lists, without the parameters that a run chooses anyway. */
export function listTitle(
  { kernels, host }: { readonly kernels: readonly ListedKernel[]; readonly host?: Host | undefined },
  job: Pick<Job, 'label' | 'kernelId' | 'name'>,
): string {
  const parameters = kernels.find(({ kernelId }) => kernelId === job.kernelId)?.parameters ?? [];
  const usual = new Set(
    parameters.map((parameter) => `${parameter.name}=${usualParameter(parameter, usualDevice(host))}`),
  );
  return jobTitle(job)
    .split(' ')
    .filter((word) => !usual.has(word))
    .join(' ');
}

/** The architecture of a run on this device that does not choose one. */
export function usualArch({ minArch, needsPtxEngine }: ListedKernel, device: Device | undefined): string {
  if (device === undefined) return '';
  const exactArch = minArch.endsWith('a');
  if (exactArch && `${device.arch}a` === minArch) return minArch;
  // The emulator's PTX engine runs code for any architecture.
  const follows = device.simulated && needsPtxEngine && archMismatch({ minArch, exactArch }, device.arch) !== undefined;
  return follows ? minArch : device.arch;
}
