import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import type { Box } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { AssignedBuilds } from './assigned-builds.ts';
import { CompileCache } from './compile-cache.ts';
import { CompileClaims } from './compile-claims.ts';
import type { CompileUnit } from './compile-unit.ts';
import { disassemble } from './disassembly.ts';
import type { EmulatorEngine, EngineWanted } from './emulator-engine.ts';
import { HeaderTrees, type NamedFolder } from './header-trees.ts';
import { emulatorUnit } from './emulator-unit.ts';
import { emulatorLibraryUnit, executorUnit, readSources, referenceUnit } from './host-libraries.ts';
import { findFrontEnd } from './front-end.ts';
import { KernelBuilder, type BuildListener } from './kernel-builder.ts';
import { installedFolder, InstalledLibraries } from './installed-libraries.ts';
import { LibraryFiles } from './library-files.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { SharedBuilds } from './shared-builds.ts';
import { digestOf, type SnapshotFile } from './source-snapshot.ts';
import { Toolchain, type Compiler, type Nvcc } from './toolchain.ts';
import { missingCompiler } from './missing-compiler.ts';

/** What a kernel of the runner's own is compiled for. */
export interface KernelTarget {
  arch: string;
  emulated: boolean;
}

interface BuildToolsOptions {
  repositoryRoot: string;
  dataDirectory: string;
  kernelsFolder: string;
  artifacts: ArtifactStore;
  libraryCache?: string | undefined;
  /** Builds of kernels that several runners share. */
  buildCache?: string | undefined;
  box?: () => Promise<Box>;
  /** What kernels may include from the host, by name; default: nothing. */
  headers?: readonly NamedFolder[] | undefined;
  /** Default: fibres. */
  engine?: EngineWanted | undefined;
  /** What another host compiled for the job; default: nothing. */
  assigned?: AssignedBuilds | undefined;
  /** As in KernelBuilder. */
  partsAtOnce?: number | undefined;
}

/**
 * Everything that compiles: kernels, and what the runner itself needs on this host (the emulator, the CPU reference,
 * the canary).
 */
export class BuildTools {
  readonly toolchain = new Toolchain();
  /** What compilers run in: asked for at each use. */
  readonly box: () => Promise<Box>;
  /** Where libraries lie that workers load. */
  readonly libraryFolder: string;
  readonly kernels: KernelBuilder;
  readonly headers: HeaderTrees;
  readonly #builds: CompileCache;
  readonly #libraries: CompileCache;
  readonly #libraryFiles: LibraryFiles;
  readonly #kernelsFolder: string;
  readonly #runnerFolder: string;
  readonly #emulatorFolder: string;
  readonly #engineWanted: EngineWanted;
  readonly #assigned: AssignedBuilds | undefined;

  /**
   * `libraryCache` may be shared by several runners: what it holds depends on the host and the runner's own sources
   * only.
   */
  constructor(options: BuildToolsOptions) {
    this.box = options.box ?? (() => findBox('none'));
    this.headers = new HeaderTrees(options.headers ?? []);
    this.#engineWanted = options.engine ?? 'fibres';
    this.#assigned = options.assigned;
    const assigned = options.assigned ? [options.assigned] : [];
    this.#kernelsFolder = options.kernelsFolder;
    this.#runnerFolder = join(options.repositoryRoot, 'apps/runner');
    this.#emulatorFolder = join(options.repositoryRoot, 'libs/emulator');
    const asked = options.libraryCache ?? join(options.dataDirectory, 'libraries');
    mkdirSync(asked, { recursive: true, mode: 0o700 });
    // By its real name: a box shows its workers no link.
    const libraries = realpathSync(asked);
    this.#libraryFiles = new LibraryFiles(join(libraries, 'files'));
    this.libraryFolder = libraries;
    this.#libraries = new CompileCache(libraries, this.#libraryFiles, {
      box: this.box,
      others: [...assigned, new InstalledLibraries(installedFolder(options.repositoryRoot))],
      claims: new CompileClaims(join(libraries, 'claims')),
    });
    const shared = options.buildCache;
    this.#builds = new CompileCache(join(options.dataDirectory, 'builds'), options.artifacts, {
      box: this.box,
      others: [...assigned, ...(shared === undefined ? [] : [new SharedBuilds(shared)])],
      claims: shared === undefined ? undefined : new CompileClaims(join(shared, 'claims')),
    });
    this.kernels = new KernelBuilder({
      toolchain: this.toolchain,
      cache: this.#builds,
      artifacts: options.artifacts,
      kernelsFolder: options.kernelsFolder,
      emulatorFiles: () => emulatorHeaders(this.#emulatorFolder),
      deviceHeaders: () => deviceHeaders(this.#emulatorFolder),
      engine: () => this.engine(),
      assigned: options.assigned,
      headers: () => this.headers.now(),
      partsAtOnce: options.partsAtOnce,
      disassemble: (cubin, signal) =>
        disassemble(cubin, { toolchain: this.toolchain, box: this.box, dataDirectory: options.dataDirectory, signal }),
    });
  }

  /** What the emulator runs kernels with. Errors: COMPILER_MISSING where a compiler did not say what it is. */
  engine(): EmulatorEngine {
    if (this.#engineWanted !== 'auto') return this.#engineWanted;
    return findFrontEnd(this.toolchain) ? 'ptx' : 'fibres';
  }

  /** SHA-256 over the headers that clang makes PTX with; undefined where nvcc does, or nothing. Errors as above. */
  deviceHeadersDigest(): string | undefined {
    return findFrontEnd(this.toolchain)?.kind === 'clang' ? digestOf(deviceHeaders(this.#emulatorFolder)) : undefined;
  }

  /** Compilations of kernels since the start, found in the cache or not. */
  cacheUse(): { hits: number; misses: number } {
    return this.#builds.use;
  }

  /** Path of libcuda_emu.so, compiled on first use. Errors: COMPILER_MISSING, INTERNAL where it does not compile. */
  async emulatorLibrary(listener: BuildListener): Promise<string> {
    await this.toolchain.askCompilers();
    return this.#library(emulatorLibraryUnit(this.#cxx(), this.#emulatorFolder, this.engine()), listener);
  }

  /** Path of the program that candidates run in, compiled on first use. Errors as above. */
  async executor(listener: BuildListener): Promise<string> {
    await this.toolchain.askCompilers();
    return this.#library(executorUnit(this.#cxx(), this.#emulatorFolder), listener);
  }

  /** Path of the CPU reference, compiled on first use. Errors as above. */
  async referenceLibrary(listener: BuildListener): Promise<string> {
    await this.toolchain.askCompilers();
    return this.#library(referenceUnit(this.#cxx(), this.#kernelsFolder), listener);
  }

  /** Path of the kernel that a device must run before it serves again after a fault. Errors as above. */
  canary(target: KernelTarget, listener: BuildListener): Promise<string> {
    return this.#ownKernel({ name: 'canary', entry: 'flashcore_canary' }, target, listener);
  }

  /** Path of the kernel that stamps the clock around samples. Errors as above. */
  clockStamp(target: KernelTarget, listener: BuildListener): Promise<string> {
    return this.#ownKernel({ name: 'clock-stamp', entry: 'flashcore_clock_stamp' }, target, listener);
  }

  /** A kernel of the runner's own, apps/runner/worker/<name>.cu. */
  async #ownKernel(
    { name, entry }: { name: string; entry: string },
    target: KernelTarget,
    listener: BuildListener,
  ): Promise<string> {
    await this.toolchain.askCompilers();
    const unit = `kernel/${name}.cu`;
    const common = {
      files: [{ path: unit, text: readFileSync(join(this.#runnerFolder, `worker/${name}.cu`), 'utf8') }],
      unit,
      name,
      defines: [],
    };
    if (target.emulated)
      return this.#library(
        emulatorUnit({
          ...common,
          cxx: this.#cxx(),
          emulatorFiles: emulatorHeaders(this.#emulatorFolder),
          entries: [entry],
          instrumented: false,
        }),
        listener,
      );
    const unitBy = (nvcc: Nvcc): CompileUnit =>
      nvccUnit({ ...common, nvcc, arch: target.arch, fastMath: false, maxRegisters: 0, keepPtx: false });
    const done = this.#assigned?.unitOf(unitBy);
    if (done) return this.#library(done, listener);
    const nvcc = this.toolchain.nvcc();
    if (!nvcc) throw missingCompiler('nvcc');
    return this.#library(unitBy(nvcc), listener);
  }

  async #library(unit: CompileUnit, { signal, onLine, onCompiled }: BuildListener): Promise<string> {
    const source = unit.compiler.name;
    const compilation = await this.#libraries.compile(unit, {
      signal,
      onLine: onLine && ((line) => onLine(source, line)),
      onStart: () =>
        onLine?.(
          'runner',
          `compiling ${unit.outputs[0]?.fileName} with ${source} ${unit.compiler.version}; the next job finds it in the cache`,
        ),
    });
    onCompiled?.(unit, compilation);
    const output = compilation.outputs[0];
    if (output) return this.#libraryFiles.path(output.sha256);
    throw new FlashcoreError(
      'INTERNAL',
      { target: unit.target, compiler: `${source} ${unit.compiler.version}` },
      `${unit.target} does not compile with ${source} ${unit.compiler.version}: ${compilation.lines.find((line) => /error/.test(line)) ?? `exit status ${compilation.exitCode}`}`,
    );
  }

  #cxx(): Compiler {
    const cxx = this.toolchain.cxx();
    if (!cxx) throw missingCompiler('g++');
    return cxx;
  }
}

/**
 * What an emulated kernel is compiled with: the headers that stand for CUDA's, and the linker's limit on static shared
 * memory.
 */
export function emulatorHeaders(folder: string): SnapshotFile[] {
  return [
    ...readSources(join(folder, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(folder, 'static_shared_limit.ld'), 'utf8') },
  ];
}

/** CUDA's headers where clang makes PTX: those of device code, and redirections that both engines share. */
export const deviceHeaders = (folder: string): SnapshotFile[] =>
  ['device_headers', 'include'].flatMap((part) => readSources(join(folder, part), `emulator/${part}`));
