import { join } from 'node:path';
import { SdpaBenchmark } from '../sdpa/sdpa-benchmark.ts';
import type { Toolchain } from '../build/toolchain.ts';
import { temporaryFolder } from '../store/temporary.ts';
import { ncuProfiler } from '../profile/ncu-profiler.ts';
import { noProfiler, type Profiler } from '../profile/profiler.ts';
import { runSanitizer, type SanitizerAnswer } from '../profile/sanitizer.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { HostDevice } from './devices.ts';

// Must fit in a terminal line, because it is shown under each gate that needs a counter.
const COUNTS_NOTHING = 'the emulator counts on PTX only: install clang 16 or later';

export interface InstrumentsOptions {
  toolchain: Toolchain;
  artifacts: ArtifactStore;
  repositoryRoot: string;
  dataDirectory: string;
  /** A Python that has PyTorch. */
  python: string;
  /** Folder of the shared objects of rivals; default: rivals/built of the repository. */
  rivals?: string | undefined;
}

/**
 * Tools that measure on a device along with its worker: Nsight Compute, compute-sanitizer, and PyTorch's SDPA in a
 * separate process. For a missing tool, gives the reason.
 */
export class Instruments {
  readonly sdpa: SdpaBenchmark | undefined;
  readonly sdpaMissing: string;
  /** Folder for files of running measurements. */
  readonly dataDirectory: string;
  readonly #device: HostDevice;
  readonly #toolchain: Toolchain;
  readonly #artifacts: ArtifactStore;

  constructor(device: HostDevice, options: InstrumentsOptions) {
    const { simulated } = device.description;
    this.#device = device;
    this.dataDirectory = options.dataDirectory;
    this.#toolchain = options.toolchain;
    this.#artifacts = options.artifacts;
    this.sdpa = simulated
      ? undefined
      : new SdpaBenchmark({
          script: join(options.repositoryRoot, 'tools/sdpa.py'),
          ordinal: device.ordinal,
          folder: options.rivals ?? join(options.repositoryRoot, 'rivals/built'),
          python: options.python,
        });
    this.sdpaMissing = simulated
      ? 'SDPA and other rivals run on a GPU host only: choose a GPU (--device) whose host has PyTorch, not the emulator'
      : '';
  }

  /** The folder in which the device's worker may write files for other processes; makes it if it does not exist. */
  workerFolder(): string {
    return temporaryFolder(this.dataDirectory, `worker-${this.#device.description.deviceId}`);
  }

  /** Looked up at each call, because ncu may be installed while the runner runs. */
  profiler(): Profiler {
    const { library, ordinal } = this.#device;
    if (library === undefined) return noProfiler(COUNTS_NOTHING);
    const ncu = this.#toolchain.path('ncu');
    if (ncu === undefined)
      return noProfiler('no ncu on this host: install Nsight Compute, part of the CUDA toolkit, and put it on PATH');
    return ncuProfiler({ ncu, library, ordinal, artifacts: this.#artifacts, dataDirectory: this.dataDirectory });
  }

  /** Runs compute-sanitizer; if it can't be run, gives the reason. */
  sanitizer(): ((run: Parameters<typeof runSanitizer>[1]) => Promise<SanitizerAnswer>) | { missing: string } {
    const { library, ordinal } = this.#device;
    if (library === undefined) return { missing: 'the emulator checks every access itself' };
    const program = this.#toolchain.path('compute-sanitizer');
    if (program === undefined) return { missing: 'it is not on this host; it comes with the CUDA toolkit' };
    return (run) => runSanitizer({ program, library, ordinal, dataDirectory: this.dataDirectory }, run);
  }

  async close(): Promise<void> {
    await this.sdpa?.close();
  }
}
