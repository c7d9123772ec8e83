import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import {
  archsIn,
  clangThatSays,
  cxxThatSays,
  nvccThatSays,
  nvrtcThatSays,
  tritonThatSays,
  type Clang,
  type Compiler,
  type Nvcc,
  type Nvrtc,
  type Triton,
} from './compilers.ts';
import { findNvrtc, type NvrtcPlace } from './nvrtc-place.ts';
import { ToolAnswers, VERSION, type ToolAnswersOptions } from './tool-answers.ts';

export interface FoundTool {
  name: string;
  /** undefined if the tool was not found. */
  version?: string;
  archs: string[];
  /** The work that is not possible without the tool, and how to get it; undefined if the tool was found. */
  missing?: string;
}

const OPTIONAL = {
  ncu: {
    pattern: /Version (\S+)/,
    without: 'no hardware counters: install Nsight Compute, part of the CUDA toolkit, and put it on PATH',
  },
  'compute-sanitizer': {
    pattern: /Version (\S+)/,
    without: 'no memcheck or racecheck on a GPU: it is part of the CUDA toolkit',
  },
  cuobjdump: { pattern: /\bV(\d\S*)/, without: 'no SASS listings: it is part of the CUDA toolkit' },
  bwrap: { pattern: /(\S+)$/, without: 'compilers and workers run unboxed: install bubblewrap' },
} as const;
const ARCHS = ['--list-gpu-code'];
/** Prints the folders with a Python's wheels: the host's and the user's own. */
const SITE_PACKAGES = [
  '-c',
  "import site, sysconfig; print(sysconfig.get_path('purelib')); print(site.getusersitepackages())",
];
/** Uses Python's isolated mode, so that neither the runner's folder nor its environment decides what is imported. */
const WHICH_TRITON = [
  '-I',
  '-c',
  'import os, sys, triton; print(triton.__version__, sys.version.split()[0], sys.prefix, os.path.dirname(os.path.dirname(triton.__file__)), sep="\\n")',
];
/** Prints the folders of a Python and its PyTorch. PyTorch is not imported, because that takes seconds. */
const WHICH_PYTORCH = [
  '-I',
  '-c',
  'import importlib.util, os, sys; at = importlib.util.find_spec("torch").origin; print(sys.executable, sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(at)), sep="\\n")',
];
/** Lists the architectures of clang's PTX target; fails if clang was built without it. */
const PTX_ARCHS = ['--target=nvptx64-nvidia-cuda', '--print-supported-cpus'];

/** A Python that has PyTorch. */
export interface PyTorch {
  /** Path of the interpreter itself, because the program on PATH may be a launcher. */
  program: string;
  /** Folders that PyTorch needs besides the system's. */
  folders: readonly string[];
}

export interface ToolchainOptions extends ToolAnswersOptions {
  /** A Python whose wheels may contain NVRTC; default: none. */
  python?: string | undefined;
  /**
   * Compiles the program that runs NVRTC (libs/emulator/nvrtc) once, and returns its path; default: no such program.
   */
  nvrtcProgram?: (() => Promise<string>) | undefined;
}

/**
 * Compilers and tools of the host. Each call looks for the files again, but a file is asked for its version only once,
 * in the background. The daemon never waits for a tool: a caller that needs an answer awaits askCompilers() or askAll()
 * first. A tool that did not answer is asked again.
 */
export class Toolchain {
  readonly #answers: ToolAnswers;
  readonly #python: string | undefined;
  readonly #makeNvrtcProgram: (() => Promise<string>) | undefined;
  /** The program that runs NVRTC, and NVRTC's place; undefined before askNvrtc() or if there is no NVRTC. */
  #nvrtcFound: { program: string; place: NvrtcPlace } | undefined;

  constructor(options: ToolchainOptions = {}) {
    this.#answers = new ToolAnswers(options);
    this.#python = options.python;
    this.#makeNvrtcProgram = options.nvrtcProgram;
  }

  /**
   * Asks the compilers that have not been asked yet. Never rejects: nvcc(), clang() and cxx() report a compiler that
   * does not answer.
   */
  async askCompilers(): Promise<void> {
    await Promise.all([
      ...['nvcc', 'g++', 'clang++'].map((name) => this.#answers.ask(toolPath(name), VERSION)),
      this.#answers.ask(toolPath('nvcc'), ARCHS),
      ...(toolPath('nvcc') === undefined ? [this.askClangs()] : []),
      // Without g++, clang is the only C++ compiler.
      ...(toolPath('g++') === undefined ? [this.#answers.ask(clangPaths()[0], VERSION)] : []),
    ]);
  }

  /** Asks each clang whether it makes PTX. Never rejects. */
  async askClangs(): Promise<void> {
    await Promise.all(clangPaths().map((path) => this.#answers.ask(path, PTX_ARCHS)));
  }

  /**
   * Looks for NVRTC, compiles the program that runs it, and asks for its version. Errors: COMPILER_MISSING if NVRTC is
   * installed but can't be asked.
   */
  async askNvrtc(): Promise<Nvrtc | undefined> {
    if (!this.#makeNvrtcProgram) return undefined;
    const python = this.#python === undefined ? undefined : toolPath(this.#python);
    const toolkits = namedToolkits();
    if (toolkits.length === 0) await this.#answers.ask(python, SITE_PACKAGES);
    const said = python === undefined ? undefined : this.#answers.known(python, SITE_PACKAGES);
    const place = findNvrtc({
      toolkits,
      sitePackages: said?.split('\n').filter((line) => line.startsWith('/')) ?? [],
      loaderPath: process.env['LD_LIBRARY_PATH'],
    });
    if (!place) return undefined;
    const program = await this.#makeNvrtcProgram();
    await this.#answers.ask(program, versionOfNvrtc(place));
    this.#nvrtcFound = { program, place };
    return this.nvrtc();
  }

  /** Asks the host's Python for Triton; undefined if it has none. */
  async askTriton(): Promise<Triton | undefined> {
    const path = this.#python === undefined ? undefined : toolPath(this.#python);
    if (path === undefined) return undefined;
    await this.#answers.ask(path, WHICH_TRITON);
    return tritonThatSays(path, this.#answers.of(path, WHICH_TRITON));
  }

  /** Asks the host's Python for PyTorch; undefined if it has none. */
  async askPyTorch(): Promise<PyTorch | undefined> {
    const path = this.#python === undefined ? undefined : toolPath(this.#python);
    if (path === undefined) return undefined;
    await this.#answers.ask(path, WHICH_PYTORCH);
    const [program, ...folders] = (this.#answers.known(path, WHICH_PYTORCH) ?? '').split('\n').slice(-4);
    return program?.startsWith('/') && folders.length === 3 ? { program, folders } : undefined;
  }

  /** Asks the compilers and the other tools. */
  async askAll(): Promise<void> {
    await Promise.all([
      this.askCompilers(),
      ...Object.keys(OPTIONAL).map((name) => this.#answers.ask(toolPath(name), VERSION)),
    ]);
  }

  /** Errors: COMPILER_MISSING if nvcc is installed but can't be run or did not report its version. */
  nvcc(): Nvcc | undefined {
    const path = toolPath('nvcc');
    if (path === undefined) return undefined;
    const nvcc = nvccThatSays(path, this.#answers.of(path, VERSION));
    return { ...nvcc, archs: archsIn(this.#answers.of(path, ARCHS)) };
  }

  /**
   * NVIDIA's run-time compiler; undefined before askNvrtc(). Errors: COMPILER_MISSING if it is installed but did not
   * answer.
   */
  nvrtc(): Nvrtc | undefined {
    if (!this.#nvrtcFound) return undefined;
    const { program, place } = this.#nvrtcFound;
    return nvrtcThatSays(program, this.#answers.of(program, versionOfNvrtc(place)), place);
  }

  /** The newest clang that makes PTX, of those that were asked. Errors: COMPILER_MISSING if none answered. */
  clang(): Clang | undefined {
    const paths = clangPaths();
    const found = paths.flatMap((path) => clangThatSays(path, this.#answers.known(path, PTX_ARCHS) ?? '') ?? []);
    if (found.length === 0)
      for (const path of paths) if (!this.#answers.failed(path, PTX_ARCHS)) this.#answers.of(path, PTX_ARCHS);
    return found.toSorted((a, b) => parseInt(b.version, 10) - parseInt(a.version, 10))[0];
  }

  /** Says that the installed clang makes no PTX; undefined if no clang is installed. */
  clangWithoutPtx(): string | undefined {
    const path = clangPaths()[0];
    return path && `${path} makes no PTX`;
  }

  /** The C++ compiler for the emulator: g++, or clang++ if there is no g++. Errors: as nvcc(). */
  cxx(): Compiler | undefined {
    const path = toolPath('g++') ?? clangPaths()[0] ?? toolPath('clang++');
    return path === undefined ? undefined : cxxThatSays(path, this.#answers.of(path, VERSION));
  }

  /** Path of a tool; undefined if it is not installed. */
  path(name: 'ncu' | 'compute-sanitizer' | 'cuobjdump' | 'nvdisasm'): string | undefined {
    return toolPath(name);
  }

  /** The tools, with what is known about them so far. */
  describe(): FoundTool[] {
    return [
      described({
        name: 'nvcc',
        find: () => this.nvcc(),
        without:
          'no machine code for a GPU, no registers, spills and occupancy: install the CUDA toolkit and put its bin folder on PATH or set CUDA_HOME',
      }),
      ...(this.#nvrtcFound ? [described({ name: 'nvrtc', find: () => this.nvrtc(), without: '' })] : []),
      described({
        name: 'g++',
        find: () => withArchs(this.cxx(), ['emulator']),
        without: "the emulator and the CPU reference can't be compiled: install g++ 12 or clang++ 15 or later",
      }),
      ...(this.#wantsClang()
        ? [
            described({
              name: 'clang++',
              find: () => this.clang(),
              without:
                "kernels run on the emulator's older engine, and those for Hopper don't run: install clang 16 or later (apt-get install clang-19, brew install llvm)",
            }),
          ]
        : []),
      ...Object.entries(OPTIONAL).map(([name, { pattern, without }]) => {
        const path = toolPath(name);
        return path
          ? {
              name,
              version: pattern.exec(this.#answers.known(path, VERSION)?.trim() ?? '')?.[1] ?? 'unknown',
              archs: [],
            }
          : missing(name, without);
      }),
    ];
  }

  /** Whether clang is listed: if nvcc is missing, or if some clang was already queried because nvcc does not work. */
  #wantsClang(): boolean {
    return (
      toolPath('nvcc') === undefined || clangPaths().some((path) => this.#answers.known(path, PTX_ARCHS) !== undefined)
    );
  }
}

const versionOfNvrtc = ({ libraries }: NvrtcPlace): string[] => [libraries, '--version'];

interface Description {
  name: string;
  find: () => (Compiler & { archs: string[] }) | undefined;
  /** The work that is not possible without the tool, and how to get it. */
  without: string;
}

function described({ name, find, without }: Description): FoundTool {
  try {
    const found = find();
    return found ? { name: found.name, version: found.version, archs: found.archs } : missing(name, without);
  } catch (error) {
    if (error instanceof FlashcoreError) return missing(name, error.message);
    throw error;
  }
}

const withArchs = (compiler: Compiler | undefined, archs: string[]): (Compiler & { archs: string[] }) | undefined =>
  compiler && { ...compiler, archs };

const missing = (name: string, without: string): FoundTool => ({ name, archs: [], missing: without });

/** "clang++" and Debian's versioned names, newest first. */
const CLANGS = ['clang++', ...Array.from({ length: 17 }, (_, index) => `clang++-${30 - index}`)];
/** Homebrew's folders for clang, which it leaves off PATH. */
const HOMEBREW_LLVM = ['/opt/homebrew/opt/llvm/bin', '/usr/local/opt/llvm/bin'];

/** Path of a program on this host, or undefined if it is not installed. Each call looks again. */
export function toolPath(name: string): string | undefined {
  if (name.startsWith('/')) return existsSync(name) ? name : undefined;
  const cuda = namedToolkits().map((root) => join(root, 'bin'));
  const folders = [
    ...(name.endsWith('++') ? [] : cuda),
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...(name.startsWith('clang') ? HOMEBREW_LLVM : []),
    // If a toolkit is named, only that toolkit is used.
    ...(cuda.length === 0 ? ['/usr/local/cuda/bin'] : []),
  ];
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** Each clang++ of this host. */
const clangPaths = (): string[] => [...new Set(CLANGS.flatMap((name) => toolPath(name) ?? []))];

/** The toolkits that CUDA_HOME and CUDA_PATH name. */
const namedToolkits = (): string[] =>
  [process.env['CUDA_HOME'], process.env['CUDA_PATH']].flatMap((root) => (root ? [root] : []));
