import type { VectorsWanted } from './build/vector-path.ts';

/** What the environment says about the runner's host; options.ts reads it, once. */
export interface HostSettings {
  /**
   * Where the emulator and the reference are kept once compiled; may be shared by runners. Default: in the data
   * directory.
   */
  libraryCache?: string | undefined;
  /** Where builds of kernels are kept too, for the other runners of this user; undefined: nowhere. */
  buildCache?: string | undefined;
  /** A Python that has PyTorch. */
  python: string;
  /** What the PTX engine's loops over lanes are compiled for; default: auto. */
  vectors?: VectorsWanted | undefined;
  /** So many emulators are served. */
  emulatedDevices: number;
}

export const DEFAULT_HOST: HostSettings = { python: 'python3', emulatedDevices: 1 };
