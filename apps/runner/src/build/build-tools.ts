import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Box } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import type { AssignedBuilds } from './assigned-builds.ts';
import { CompileCache, type OtherBuilds } from './compile-cache.ts';
import { CompileClaims } from './compile-claims.ts';
import { DecidedEmulation, type Emulation } from './emulation.ts';
import { disassemble, type Listing } from './disassembly.ts';
import {
  DEFAULT_ENGINE,
  type EngineWanted,
  deviceHeaders,
  emulatorHeaders,
  standardHeaders,
} from './host-libraries.ts';
import { HeaderTrees, type NamedFolder } from './header-trees.ts';
import { installedFolder, InstalledLibraries, SharedBuilds } from './shared-builds.ts';
import { KernelBuilder } from './kernel-builder.ts';
import { LibraryFiles } from './library-files.ts';
import { OwnLibraries } from './own-libraries.ts';
import { digestOf } from './source-snapshot.ts';
import { Toolchain } from './toolchain.ts';
import { chooseVectorPath, hostProcessorFeatures, type VectorsWanted } from './vector-path.ts';

export interface BuildToolsOptions extends Partial<Omit<HostSettings, 'emulatedDevices'>> {
  repositoryRoot: string;
  dataDirectory: string;
  /** Default: the repository's. */
  kernelsFolder?: string;
  /** Default: artifacts/ in the data directory. */
  artifacts?: ArtifactStore;
  box?: () => Promise<Box>;
  /** Header folders of the host that kernels may include, by name; default: none. */
  headers?: readonly NamedFolder[] | undefined;
  /** The emulator's engine; default: auto. */
  engine?: EngineWanted | undefined;
  /** Another host's compilations for the current job; default: none. */
  assigned?: AssignedBuilds | undefined;
  /** Further stores of compiled libraries; default: none. */
  others?: readonly OtherBuilds[];
}

/** Everything that compiles: kernels, and the programs that the runner itself needs on this host. */
export class BuildTools {
  readonly toolchain: Toolchain;
  /** The sandbox of compilers; looked up at each use. */
  readonly box: () => Promise<Box>;
  /** Folder of the libraries that workers load. */
  readonly libraryFolder: string;
  /** The emulator, the CPU reference, the canary and others. */
  readonly libraries: OwnLibraries;
  readonly kernels: KernelBuilder;
  readonly headers: HeaderTrees;
  readonly #builds: CompileCache;
  readonly #emulation: DecidedEmulation;
  readonly #emulatorFolder: string;
  readonly #dataDirectory: string;

  /**
   * `libraryCache` may be shared by several runners, because its contents depend only on the host and the runner's own
   * sources.
   */
  constructor(options: BuildToolsOptions) {
    const { assigned, dataDirectory, repositoryRoot, kernelsFolder = join(repositoryRoot, 'kernels') } = options;
    const { artifacts = new ArtifactStore(join(dataDirectory, 'artifacts')) } = options;
    this.box = options.box ?? (() => findBox('none'));
    this.headers = new HeaderTrees(options.headers ?? []);
    this.#dataDirectory = dataDirectory;
    const toolchain = new Toolchain({
      python: options.python,
      nvrtcProgram: () => this.libraries.nvrtcProgram(),
    });
    this.toolchain = toolchain;
    const runnerFolder = join(repositoryRoot, 'apps/runner');
    const emulatorFolder = join(repositoryRoot, 'libs/emulator');
    this.#emulatorFolder = emulatorFolder;
    this.libraryFolder = libraryFolderOf(options);
    const files = new LibraryFiles(join(this.libraryFolder, 'files'));
    const cache = this.#libraryCache(options, files);
    this.#emulation = new DecidedEmulation({
      wanted: options.engine ?? DEFAULT_ENGINE,
      toolchain,
      cache,
      runnerFolder,
      emulatorFolder,
    });
    this.libraries = new OwnLibraries({
      toolchain,
      cache,
      files,
      kernelsFolder,
      runnerFolder,
      emulatorFolder,
      engine: async () => (await this.#emulation.decided()).engine,
      vectors: chooseVectorPath(options.vectors ?? 'auto', hostProcessorFeatures()),
      assigned,
    });
    this.#builds = this.#buildCache(artifacts, options);
    this.kernels = new KernelBuilder({
      toolchain,
      cache: this.#builds,
      artifacts,
      kernelsFolder,
      emulatorFiles: () => emulatorHeaders(emulatorFolder),
      deviceHeaders: () => deviceHeaders(emulatorFolder),
      standardHeaders: () => standardHeaders(emulatorFolder),
      emulation: () => this.#emulation.decided(),
      tritonScript: () => readFileSync(join(repositoryRoot, 'tools/compile_triton.py'), 'utf8'),
      assigned,
      headers: () => this.headers.now(),
      disassemble: (cubin, signal) => this.#disassemble(cubin, 'cuobjdump', signal),
    });
  }

  #libraryCache({ assigned, others = [], repositoryRoot }: BuildToolsOptions, files: LibraryFiles): CompileCache {
    return new CompileCache(this.libraryFolder, files, {
      box: this.box,
      others: [...(assigned ? [assigned] : []), ...others, new InstalledLibraries(installedFolder(repositoryRoot))],
      claims: new CompileClaims(join(this.libraryFolder, 'claims')),
    });
  }

  #buildCache(
    artifacts: ArtifactStore,
    { assigned, buildCache: shared, dataDirectory }: BuildToolsOptions,
  ): CompileCache {
    return new CompileCache(join(dataDirectory, 'builds'), artifacts, {
      box: this.box,
      others: [...(assigned ? [assigned] : []), ...(shared === undefined ? [] : [new SharedBuilds(shared)])],
      claims: shared === undefined ? undefined : new CompileClaims(join(shared, 'claims')),
    });
  }

  /** Asks the compilers for their versions and chooses the emulator's engine. Never rejects. */
  async prepare(): Promise<void> {
    await this.toolchain.askCompilers();
    await this.#emulation.decided().catch(() => undefined);
  }

  /** The emulator's engine and front end; call prepare() first. Errors: as DecidedEmulation.now(). */
  emulation(): Emulation {
    return this.#emulation.now();
  }

  /**
   * Version of the CUDA headers that NVRTC uses, such as "13.0"; undefined if NVRTC is not the front end.
   * Errors: as emulation().
   */
  cudaHeadersVersion(): string | undefined {
    return this.emulation().frontEnd === 'nvrtc' ? this.toolchain.nvrtc()?.headersVersion : undefined;
  }

  /**
   * SHA-256 over the headers that clang uses; undefined if clang is not the front end. Errors: as
   * emulation().
   */
  deviceHeadersDigest(): string | undefined {
    return this.emulation().frontEnd === 'clang' ? digestOf(deviceHeaders(this.#emulatorFolder)) : undefined;
  }

  /** A cubin's code with its source lines. Errors: as disassemble(). */
  disassembleByLine(cubin: string, signal: AbortSignal): Promise<Listing> {
    return this.#disassemble(cubin, 'nvdisasm', signal);
  }

  #disassemble(cubin: string, tool: 'cuobjdump' | 'nvdisasm', signal: AbortSignal): Promise<Listing> {
    const { toolchain, box } = this;
    return disassemble(cubin, { tool, toolchain, box, dataDirectory: this.#dataDirectory, signal });
  }

  /** How many compilations of kernels since the start were in the cache (hits), and how many were not (misses). */
  cacheUse(): { hits: number; misses: number } {
    return this.#builds.use;
  }
}

/** The folder's real path, because a sandboxed worker does not see a link to the folder. */
function libraryFolderOf({ libraryCache, dataDirectory }: BuildToolsOptions): string {
  const asked = libraryCache ?? join(dataDirectory, 'libraries');
  mkdirSync(asked, { recursive: true, mode: 0o700 });
  return realpathSync(asked);
}

/** Settings of the runner's host from the environment; options.ts reads them once. */
export interface HostSettings {
  /** Folder of the compiled emulator and reference; runners may share it. Default: in the data directory. */
  libraryCache?: string | undefined;
  /** Folder in which kernel builds are also stored for this user's other runners; undefined: none. */
  buildCache?: string | undefined;
  /** A Python that has PyTorch, and whose wheels may contain NVRTC. */
  python: string;
  /** Folder of the shared objects of rivals; default: rivals/built of the repository. */
  rivals?: string | undefined;
  /** Vector path of the PTX engine's loops over lanes; default: auto. */
  vectors?: VectorsWanted | undefined;
  /** Number of emulators that are served. */
  emulatedDevices: number;
}

export const DEFAULT_HOST: HostSettings = { python: 'python3', emulatedDevices: 1 };
