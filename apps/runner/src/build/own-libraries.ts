import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import type { ReferenceSource } from '@flashcore/shared/kernels';
import type { AssignedBuilds } from './assigned-builds.ts';
import type { BuildListener, Compilation, CompileCache } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';
import { type Compiler, type Nvcc, missingCompiler } from './compilers.ts';
import {
  type EmulatorEngine,
  emulatorHeaders,
  emulatorLibraryUnit,
  executorUnit,
  nvrtcProgramUnit,
  ownReferenceUnit,
  referenceUnit,
} from './host-libraries.ts';
import { emulatorUnit } from './emulator-unit.ts';
import type { LibraryFiles } from './library-files.ts';
import { nvccUnit } from './nvcc-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import { UnusableCompiler } from './tool-answers.ts';
import type { Toolchain } from './toolchain.ts';
import type { VectorPath } from './vector-path.ts';

/** Target of one of the runner's own kernels. */
export interface KernelTarget {
  arch: string;
  emulated: boolean;
}

export interface OwnLibrariesOptions {
  toolchain: Toolchain;
  cache: CompileCache;
  files: LibraryFiles;
  kernelsFolder: string;
  runnerFolder: string;
  emulatorFolder: string;
  /** The emulator's engine, once it is known. Errors: as DecidedEmulation.decided(). */
  engine: () => Promise<EmulatorEngine>;
  /** The vector path of the PTX engine on this host. */
  vectors: VectorPath;
  /** Another host's compilations for the current job; default: none. */
  assigned?: AssignedBuilds | undefined;
}

/** A program that runs a problem's reference, and how it is started. */
export interface ReferenceProgram {
  program: string;
  args: readonly string[];
  /** Arguments that make the program do nothing, to test whether it runs in a sandbox. */
  trial: readonly string[];
  /** Paths that the program needs besides the system's folders. */
  readable: readonly string[];
  /** Whether the program must never run without a sandbox; default: false. */
  onlyBoxed?: boolean;
}

interface PythonAction {
  action: readonly string[];
  readable: readonly string[];
}

/**
 * Programs and kernels that the runner itself needs, compiled on first use. Each call returns a path, or for a
 * problem's reference a program with its arguments.
 */
export class OwnLibraries {
  readonly #options: OwnLibrariesOptions;

  constructor(options: OwnLibrariesOptions) {
    this.#options = options;
  }

  /**
   * Path of libcuda_emu.so; `vectors` selects a vector path other than this host's. Errors: COMPILER_MISSING, INTERNAL
   * if it does not compile.
   */
  async emulator(listener: BuildListener, vectors = this.#options.vectors): Promise<string> {
    const engine = await this.#options.engine();
    return this.#make(emulatorLibraryUnit(this.#cxx(), this.#options.emulatorFolder, { engine, vectors }), listener);
  }

  /** The program that candidates run in. Errors: as emulator(). */
  async executor(listener: BuildListener): Promise<string> {
    await this.#options.toolchain.askCompilers();
    return this.#make(executorUnit(this.#cxx(), this.#options.emulatorFolder), listener);
  }

  /** The CPU reference. Errors: as emulator(). */
  async reference(listener: BuildListener): Promise<string> {
    await this.#options.toolchain.askCompilers();
    return this.#make(referenceUnit(this.#cxx(), this.#options.kernelsFolder), listener);
  }

  /**
   * The reference program of a problem, from its reference.cpp or reference.py. Errors: COMPILER_MISSING,
   * INVALID_MANIFEST if it does not compile, because the problem's author must fix it.
   */
  async ownReference({ name, text, path }: ReferenceSource, listener: BuildListener): Promise<ReferenceProgram> {
    if (name === 'reference.py') {
      const { files } = this.#options;
      const source = files.path(files.put(Buffer.from(text)));
      return this.python({ action: ['run', source], readable: [dirname(source)] });
    }
    await this.#options.toolchain.askCompilers();
    const program = await this.#make(
      ownReferenceUnit(this.#cxx(), this.#options.kernelsFolder, text),
      listener,
      (unit, ended) => new FlashcoreError('INVALID_MANIFEST', { path }, notCompiled(path, unit, ended)),
    );
    return { program, args: [], trial: ['check'], readable: [dirname(program)] };
  }

  /**
   * kernels/reference/python_reference.py as a program that does `action`; `readable`: the paths that the action names.
   * Errors: COMPILER_MISSING if the host's Python has no PyTorch.
   */
  async python({ action, readable }: PythonAction): Promise<ReferenceProgram> {
    const python = await this.#options.toolchain.askPyTorch();
    if (!python) throw missingCompiler('pytorch');
    const script = realpathSync(join(this.#options.kernelsFolder, 'reference/python_reference.py'));
    const isolated = ['-I', script];
    return {
      program: python.program,
      args: [...isolated, ...action],
      trial: [...isolated, 'check'],
      readable: [...new Set([script, ...python.folders, ...readable])],
      onlyBoxed: true,
    };
  }

  /** The program that runs NVRTC. Errors: COMPILER_MISSING. */
  async nvrtcProgram(): Promise<string> {
    const unit = nvrtcProgramUnit(this.#cxx(), this.#options.emulatorFolder);
    try {
      return await this.#make(unit, { signal: new AbortController().signal });
    } catch (error) {
      if (error instanceof FlashcoreError && error.reason === 'INTERNAL')
        throw new UnusableCompiler(unit.compiler.path, error.message, { lasting: true });
      throw error;
    }
  }

  /** The kernel that a device must run after a fault before it serves again. Errors: as emulator(). */
  canary(target: KernelTarget, listener: BuildListener): Promise<string> {
    return this.#kernel({ name: 'canary', entries: ['flashcore_canary'] }, target, listener);
  }

  /** The kernel that records the clock before and after samples. Errors: as emulator(). */
  clockStamp(target: KernelTarget, listener: BuildListener): Promise<string> {
    return this.#kernel({ name: 'clock-stamp', entries: ['flashcore_clock_stamp'] }, target, listener);
  }

  /** The kernels that make the inputs of timed launches and check their outputs. Errors: as emulator(). */
  judge(target: KernelTarget, listener: BuildListener): Promise<string> {
    const entries = ['inputs', 'outputs', 'slots', 'answers', 'noise', 'sum', 'hold', 'scrub'].map(
      (entry) => `flashcore_judge_${entry}`,
    );
    return this.#kernel({ name: 'judge', entries }, target, listener);
  }

  /** Compiles a file of the runner's own kernels. */
  async #kernel(
    { name, entries }: { name: string; entries: string[] },
    target: KernelTarget,
    listener: BuildListener,
  ): Promise<string> {
    const { toolchain, runnerFolder, emulatorFolder, assigned } = this.#options;
    await toolchain.askCompilers();
    const source = ownSource(runnerFolder, name);
    const common = { files: [source], unit: source.path, name, defines: [] };
    if (target.emulated) {
      const emulatorFiles = emulatorHeaders(emulatorFolder);
      const unit = emulatorUnit({ ...common, cxx: this.#cxx(), emulatorFiles, entries, instrumented: false });
      return this.#make(unit, listener);
    }
    const unitBy = (nvcc: Nvcc): CompileUnit =>
      nvccUnit({ ...common, nvcc, arch: target.arch, fastMath: false, maxRegisters: 0, keepPtx: false });
    const nvcc = assigned?.nvccOf(unitBy) ?? toolchain.nvcc();
    if (!nvcc) throw missingCompiler('nvcc');
    return this.#make(unitBy(nvcc), listener);
  }

  async #make(
    unit: CompileUnit,
    { signal, onLine, onCompiled, progress }: BuildListener,
    refused = doesNotCompile,
  ): Promise<string> {
    const { cache, files } = this.#options;
    const { name, version } = unit.compiler;
    const what = unit.outputs[0]?.fileName ?? unit.target;
    const compiling = cache.compile(unit, {
      signal,
      onLine: onLine && ((line) => onLine(name, line)),
      onStart: () =>
        onLine?.('runner', `compiling ${what} with ${name} ${version}; the next job finds it in the cache`),
    });
    const compilation = await (progress ? progress.follow(what, compiling) : compiling);
    onCompiled?.(unit, compilation);
    const output = compilation.outputs[0];
    if (output) return files.path(output.sha256);
    throw refused(unit, compilation);
  }

  #cxx(): Compiler {
    const cxx = this.#options.toolchain.cxx();
    if (!cxx) throw missingCompiler('g++');
    return cxx;
  }
}

/** The source apps/runner/worker/<name>.cu. */
export const ownSource = (runnerFolder: string, name: string): SnapshotFile => ({
  path: `kernel/${name}.cu`,
  text: readFileSync(join(runnerFolder, `worker/${name}.cu`), 'utf8'),
});

const doesNotCompile = (unit: CompileUnit, ended: Compilation): FlashcoreError =>
  new FlashcoreError(
    'INTERNAL',
    { target: unit.target, compiler: nameOf(unit.compiler) },
    notCompiled(unit.target, unit, ended),
  );

const notCompiled = (what: string, { compiler }: CompileUnit, { lines, exitCode }: Compilation): string =>
  `${what} does not compile with ${nameOf(compiler)}: ${lines.find((line) => /error/i.test(line)) ?? `exit status ${exitCode}`}`;

const nameOf = ({ name, version }: Compiler): string => `${name} ${version}`;
