import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { DATA_SHEETS } from '@flashcore/shared/kernels';
import type { Box } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { AssignedBuilds } from './assigned-builds.ts';
import { clangUnit, type ClangOptions } from './clang-unit.ts';
import { CompileCache } from './compile-cache.ts';
import { CompileClaims } from './compile-claims.ts';
import type { CompileUnit } from './compile-unit.ts';
import { disassemble } from './disassembly.ts';
import { chooseEmulation, type Emulation } from './emulation.ts';
import { DEFAULT_ENGINE, type EngineWanted } from './emulator-engine.ts';
import { HeaderTrees, type NamedFolder } from './header-trees.ts';
import { emulatorUnit } from './emulator-unit.ts';
import { emulatorLibraryUnit, executorUnit, nvrtcProgramUnit, readSources, referenceUnit } from './host-libraries.ts';
import type { FrontEnd } from './front-end.ts';
import { KernelBuilder, type BuildListener } from './kernel-builder.ts';
import { installedFolder, InstalledLibraries } from './installed-libraries.ts';
import { LibraryFiles } from './library-files.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import { SharedBuilds } from './shared-builds.ts';
import { digestOf, type SnapshotFile } from './source-snapshot.ts';
import { Toolchain, UnusableCompiler, type Compiler, type Nvcc } from './toolchain.ts';
import { missingCompiler } from './missing-compiler.ts';
import { chooseVectorPath, hostProcessorFeatures, type VectorPath, type VectorsWanted } from './vector-path.ts';

/** Of the device that the emulator is. */
const EMULATED_ARCH = DATA_SHEETS[0]!.arch;
/** A front end takes less than a second for the kernel that it is tried with. */
const TRIAL_LIMIT_MS = 30_000;

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
  /** Default: auto. */
  engine?: EngineWanted | undefined;
  /** Of the PTX engine; default: the best that the processor has. */
  vectors?: VectorsWanted | undefined;
  /** What another host compiled for the job; default: nothing. */
  assigned?: AssignedBuilds | undefined;
  /** As in KernelBuilder. */
  partsAtOnce?: number | undefined;
  /** A Python whose wheels may have NVRTC; default: none is asked. */
  python?: string | undefined;
}

/**
 * Everything that compiles: kernels, and what the runner itself needs on this host (the emulator, the CPU reference,
 * the canary).
 */
export class BuildTools {
  readonly toolchain: Toolchain;
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
  #emulation: Emulation | undefined;
  #choosing: Promise<Emulation> | undefined;
  /** Why it is not known yet. */
  #undecided: Error | undefined;
  readonly #vectors: VectorPath;
  readonly #assigned: AssignedBuilds | undefined;

  /**
   * `libraryCache` may be shared by several runners: what it holds depends on the host and the runner's own sources
   * only.
   */
  constructor(options: BuildToolsOptions) {
    this.box = options.box ?? (() => findBox('none'));
    this.headers = new HeaderTrees(options.headers ?? []);
    this.toolchain = new Toolchain({ python: options.python, nvrtcProgram: () => this.#nvrtcProgram() });
    this.#engineWanted = options.engine ?? DEFAULT_ENGINE;
    this.#vectors = chooseVectorPath(options.vectors ?? 'auto', hostProcessorFeatures());
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
      standardHeaders: () => this.#standardHeaders(),
      emulation: () => this.#decided(),
      assigned: options.assigned,
      headers: () => this.headers.now(),
      partsAtOnce: options.partsAtOnce,
      disassemble: (cubin, signal) =>
        disassemble(cubin, { toolchain: this.toolchain, box: this.box, dataDirectory: options.dataDirectory, signal }),
    });
  }

  /** Asks the compilers what they are, and finds out what the emulator runs kernels with. Never rejects. */
  async prepare(): Promise<void> {
    await this.toolchain.askCompilers();
    await this.#decided().catch(() => undefined);
  }

  /**
   * What the emulator runs kernels with; to be asked after prepare(). Errors: COMPILER_MISSING where a compiler did not
   * say what it is; what kept one from being tried.
   */
  emulation(): Emulation {
    if (this.#emulation) return this.#emulation;
    throw (
      this.#undecided ??
      new FlashcoreError('COMPILER_MISSING', {}, 'The compilers were not asked yet: try again in a moment')
    );
  }

  /** Of CUDA's headers that NVRTC makes PTX with: "13.0"; undefined where it does not. Errors as above. */
  cudaHeadersVersion(): string | undefined {
    return this.emulation().frontEnd === 'nvrtc' ? this.toolchain.nvrtc()?.headersVersion : undefined;
  }

  /** SHA-256 over the headers that clang makes PTX with; undefined where nvcc does, or nothing. Errors as above. */
  deviceHeadersDigest(): string | undefined {
    return this.emulation().frontEnd === 'clang' ? digestOf(deviceHeaders(this.#emulatorFolder)) : undefined;
  }

  /** Once for a runner: its device has the library of one engine. */
  async #decided(): Promise<Emulation> {
    if (this.#emulation) return this.#emulation;
    await this.toolchain.askCompilers();
    this.#choosing ??= chooseEmulation(this.#engineWanted, this.toolchain, {
      arch: EMULATED_ARCH,
      problemOf: (frontEnd) => this.#problemOf(frontEnd),
    });
    try {
      return (this.#emulation = await this.#choosing);
    } catch (error) {
      this.#undecided = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      this.#choosing = undefined;
    }
  }

  /** Has a front end compile a kernel of the runner's own, once for each C++ compiler that nvcc could refuse. */
  async #problemOf(frontEnd: FrontEnd): Promise<string | undefined> {
    const name = 'canary';
    const unit = `kernel/${name}.cu`;
    const common = { unit, name, defines: [], arch: EMULATED_ARCH, fastMath: false };
    const files = [this.#ownSource(name), { path: 'beside.txt', text: this.toolchain.cxx()?.identity ?? '' }];
    const { exitCode, timedOut, lines } = await this.#libraries.compile(
      { ...this.#unitOf(frontEnd, { ...common, files }), limitMs: TRIAL_LIMIT_MS },
      { signal: new AbortController().signal },
    );
    const { path } = frontEnd.compiler;
    if (timedOut)
      throw new UnusableCompiler(
        path,
        `${path} did not compile ${name}.cu within ${TRIAL_LIMIT_MS / 1000} s: try again when the runner's host is less busy`,
        { lasting: false },
      );
    if (exitCode === 0) return undefined;
    const said = lines.find((line) => /error|fatal|unsupported/i.test(line)) ?? lines[0] ?? `exit status ${exitCode}`;
    return `${path} does not compile ${name}.cu: ${said.trim().slice(0, 200)}`;
  }

  #unitOf({ kind, compiler }: FrontEnd, common: Omit<ClangOptions, 'clang' | 'deviceHeaders'>): CompileUnit {
    switch (kind) {
      case 'nvcc':
        return nvccUnit({ ...common, nvcc: compiler, maxRegisters: 0, keepPtx: true });
      case 'nvrtc':
        return nvrtcUnit({ ...common, nvrtc: compiler, maxRegisters: 0, standardHeaders: this.#standardHeaders() });
      case 'clang':
        return clangUnit({ ...common, clang: compiler, deviceHeaders: deviceHeaders(this.#emulatorFolder) });
    }
  }

  /** Path of the program that runs NVRTC. Errors: COMPILER_MISSING. */
  async #nvrtcProgram(): Promise<string> {
    const unit = nvrtcProgramUnit(this.#cxx(), this.#emulatorFolder);
    try {
      return await this.#library(unit, { signal: new AbortController().signal });
    } catch (error) {
      if (error instanceof FlashcoreError && error.reason === 'INTERNAL')
        throw new UnusableCompiler(unit.compiler.path, error.message, { lasting: true });
      throw error;
    }
  }

  /** What stands for the C and C++ library's headers where NVRTC makes PTX. */
  #standardHeaders(): SnapshotFile[] {
    return readSources(join(this.#emulatorFolder, 'nvrtc/headers'), 'emulator/nvrtc/headers');
  }

  #ownSource(name: string): SnapshotFile {
    return { path: `kernel/${name}.cu`, text: readFileSync(join(this.#runnerFolder, `worker/${name}.cu`), 'utf8') };
  }

  /** Compilations of kernels since the start, found in the cache or not. */
  cacheUse(): { hits: number; misses: number } {
    return this.#builds.use;
  }

  /**
   * Path of libcuda_emu.so, compiled on first use, for another path than this host's where `vectors` says so. Errors:
   * COMPILER_MISSING, INTERNAL where it does not compile.
   */
  async emulatorLibrary(listener: BuildListener, vectors = this.#vectors): Promise<string> {
    const { engine } = await this.#decided();
    return this.#library(emulatorLibraryUnit(this.#cxx(), this.#emulatorFolder, { engine, vectors }), listener);
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
      files: [this.#ownSource(name)],
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
