import type { VectorsWanted } from './build/vector-path.ts';

/** Settings of the runner's host from the environment; options.ts reads them once. */
export interface HostSettings {
  /** Folder of the compiled emulator and reference; runners may share it. Default: in the data directory. */
  libraryCache?: string | undefined;
  /** Folder in which kernel builds are also stored for this user's other runners; undefined: none. */
  buildCache?: string | undefined;
  /** A Python that has PyTorch. */
  python: string;
  /** Vector path of the PTX engine's loops over lanes; default: auto. */
  vectors?: VectorsWanted | undefined;
  /** Number of emulators that are served. */
  emulatedDevices: number;
}

export const DEFAULT_HOST: HostSettings = { python: 'python3', emulatedDevices: 1 };
