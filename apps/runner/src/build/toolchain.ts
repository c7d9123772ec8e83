import { existsSync, readFileSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { delimiter, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { runProgram } from '../sandbox/run.ts';
import { cudaVersionIn, findNvrtc, type NvrtcPlace } from './nvrtc-place.ts';

/** A compiler found on this host. */
export interface Compiler {
  name: 'nvcc' | 'nvrtc' | 'g++' | 'clang++';
  path: string;
  /** For example "13.0.88" or "12.2.0". */
  version: string;
  /** What `-march=native` means here, and the like: part of every digest. */
  identity: string;
  /** The same of code that is not made for this host's very processor; undefined: as `identity`. */
  anyProcessor?: string;
}

export interface Nvcc extends Compiler {
  /** Architectures that it makes code for: "sm_80" … */
  archs: string[];
}

/** One that makes PTX: Apple's, for one, does not. */
export interface Clang extends Compiler {
  /** Architectures that it knows by name: "sm_80" … */
  archs: string[];
}

/** libnvrtc, by the program that this repository has for it. */
export interface Nvrtc extends Compiler {
  /** Architectures that it makes code for: "sm_80" … */
  archs: string[];
  place: NvrtcPlace;
  /** Of CUDA's headers: "13.0". */
  headersVersion: string;
}

export interface FoundTool {
  name: string;
  /** Undefined where it was not found. */
  version?: string;
  archs: string[];
  /** What is not possible without it, and how to get it; undefined where it was found. */
  missing?: string;
}

const PROBE_LIMIT_MS = 10_000;
/** A tool that hangs is not waited for again at once. */
const FAILURE_KEPT_MS = 10_000;

const OPTIONAL = {
  ncu: {
    pattern: /Version (\S+)/,
    without: 'no hardware counters: install Nsight Compute, which the CUDA toolkit has, and put it on PATH',
  },
  'compute-sanitizer': {
    pattern: /Version (\S+)/,
    without: 'no memcheck and racecheck on a GPU: it comes with the CUDA toolkit',
  },
  cuobjdump: { pattern: /\bV(\d\S*)/, without: 'no SASS listings: it comes with the CUDA toolkit' },
  bwrap: { pattern: /(\S+)$/, without: 'compilers and workers run unboxed: install bubblewrap' },
} as const;
const VERSION = ['--version'];
const ARCHS = ['--list-gpu-code'];
/** Where a Python keeps its wheels: the host's, and the user's own. */
const SITE_PACKAGES = [
  '-c',
  "import site, sysconfig; print(sysconfig.get_path('purelib')); print(site.getusersitepackages())",
];
/** Fails where clang was built without a back end for PTX. */
const PTX_ARCHS = ['--target=nvptx64-nvidia-cuda', '--print-supported-cpus'];

/** "clang++", and what Debian names beside it, the newest first. */
const CLANGS = ['clang++', ...Array.from({ length: 17 }, (_, index) => `clang++-${30 - index}`)];
/** Where Homebrew keeps its clang, which it leaves off PATH. */
const HOMEBREW_LLVM = ['/opt/homebrew/opt/llvm/bin', '/usr/local/opt/llvm/bin'];

export interface ToolchainOptions {
  limitMs?: number;
  failureKeptMs?: number;
  /** A Python whose wheels may have NVRTC; default: none is asked. */
  python?: string | undefined;
  /** Compiles the program that runs NVRTC (libs/emulator/nvrtc), once, and gives its path; default: there is none. */
  nvrtcProgram?: (() => Promise<string>) | undefined;
}

/**
 * Compilers and tools of the host. Looked for at each call; asked for their version once for each file, in the
 * background: the daemon waits for none, and who
 * wants an answer calls askCompilers() or askAll() before. What did not answer is asked again.
 */
export class Toolchain {
  readonly #answers = new Map<string, string>();
  /** Why one that is there does not answer, until it is asked again. */
  readonly #failures = new Map<string, string>();
  readonly #asking = new Map<string, Promise<void>>();
  readonly #limitMs: number;
  readonly #failureKeptMs: number;
  readonly #python: string | undefined;
  readonly #makeNvrtcProgram: (() => Promise<string>) | undefined;
  /** What runs NVRTC, and where that lies; undefined: it was not looked for, or is not there. */
  #nvrtcFound: { program: string; place: NvrtcPlace } | undefined;

  constructor(options: ToolchainOptions = {}) {
    this.#limitMs = options.limitMs ?? PROBE_LIMIT_MS;
    this.#failureKeptMs = options.failureKeptMs ?? FAILURE_KEPT_MS;
    this.#python = options.python;
    this.#makeNvrtcProgram = options.nvrtcProgram;
  }

  /**
   * Asks the compilers that were not asked yet. Never rejects: nvcc(), clang() and cxx() tell of one that does not
   * answer.
   */
  async askCompilers(): Promise<void> {
    await Promise.all([
      ...['nvcc', 'g++', 'clang++'].map((name) => this.#ask(this.#find(name), VERSION)),
      this.#ask(this.#find('nvcc'), ARCHS),
      ...(this.#find('nvcc') === undefined ? [this.askClangs()] : []),
      // The only C++ compiler there is.
      ...(this.#find('g++') === undefined ? [this.#ask(this.#clangPaths()[0], VERSION)] : []),
    ]);
  }

  /** Asks each clang whether it makes PTX. Never rejects: as above. */
  async askClangs(): Promise<void> {
    await Promise.all(this.#clangPaths().map((path) => this.#ask(path, PTX_ARCHS)));
  }

  /**
   * Looks for NVRTC, compiles what runs it, and asks it what it is. Errors: COMPILER_MISSING where it is there and
   * can't be asked.
   */
  async askNvrtc(): Promise<Nvrtc | undefined> {
    if (!this.#makeNvrtcProgram) return undefined;
    const python = this.#python === undefined ? undefined : this.#find(this.#python);
    const toolkits = namedToolkits();
    if (toolkits.length === 0) await this.#ask(python, SITE_PACKAGES);
    const said = python === undefined ? undefined : this.#known(python, SITE_PACKAGES);
    const place = findNvrtc({
      toolkits,
      sitePackages: said?.split('\n').filter((line) => line.startsWith('/')) ?? [],
      loaderPath: process.env['LD_LIBRARY_PATH'],
    });
    if (!place) return undefined;
    const program = await this.#makeNvrtcProgram();
    await this.#ask(program, [place.libraries, '--version']);
    this.#nvrtcFound = { program, place };
    return this.nvrtc();
  }

  /** Asks the other tools too. */
  async askAll(): Promise<void> {
    await Promise.all([
      this.askCompilers(),
      ...Object.keys(OPTIONAL).map((name) => this.#ask(this.#find(name), VERSION)),
    ]);
  }

  /** Errors: COMPILER_MISSING where it is there and did not say what it is, or can't be run. */
  nvcc(): Nvcc | undefined {
    const path = this.#find('nvcc');
    if (!path) return undefined;
    const version = versionIn(this.#answerOf(path, VERSION), /V(\d+\.\d+\.\d+)/, path);
    const codes = this.#answerOf(path, ARCHS)
      .split(/\s+/)
      .filter((code) => /^sm_\d+$/.test(code));
    return { ...nvccOfVersion(version), path, archs: withFeatureArchs(codes) };
  }

  /** NVIDIA's run-time compiler, once it was asked. Errors: COMPILER_MISSING where it is there and did not answer. */
  nvrtc(): Nvrtc | undefined {
    if (!this.#nvrtcFound) return undefined;
    const { program, place } = this.#nvrtcFound;
    const text = this.#answerOf(program, [place.libraries, '--version']);
    const version = versionIn(text, /^V(\d+\.\d+\.\d+)/, place.libraries);
    const headersVersion = cudaVersionIn(place.includes[0]!);
    return {
      name: 'nvrtc',
      path: program,
      version,
      identity: `nvrtc ${version}, CUDA's headers ${headersVersion}`,
      archs: withFeatureArchs(text.match(/\bsm_\d+\b/g) ?? []),
      place,
      headersVersion,
    };
  }

  /** The newest clang that makes PTX, of those that were asked. Errors: COMPILER_MISSING where none answered. */
  clang(): Clang | undefined {
    const paths = this.#clangPaths();
    const found = paths.flatMap((path): Clang[] => {
      const text = this.#known(path, PTX_ARCHS) ?? '';
      const version = /\bversion (\d+\.\d+\.\d+)/.exec(text)?.[1];
      const archs = text.match(/\bsm_\d+[af]?\b/g);
      return version && archs
        ? [{ name: 'clang++', path, version, identity: `clang++ ${version}`, archs: [...archs] }]
        : [];
    });
    if (found.length === 0)
      for (const path of paths) if (!this.#failures.has(keyOf(path, PTX_ARCHS))) this.#answerOf(path, PTX_ARCHS);
    return found.toSorted((a, b) => parseInt(b.version, 10) - parseInt(a.version, 10))[0];
  }

  /** What is said of clang where none makes PTX; undefined: there is no clang. */
  clangWithoutPtx(): string | undefined {
    const path = this.#clangPaths()[0];
    return path && `${path} makes no PTX`;
  }

  /** The C++ compiler for the emulator: g++, or clang++ where there is no g++. Errors: as nvcc(). */
  cxx(): Compiler | undefined {
    const path = this.#find('g++') ?? this.#clangPaths()[0] ?? this.#find('clang++');
    if (path === undefined) return undefined;
    const text = this.#answerOf(path, VERSION);
    const version = versionIn(text, /(\d+\.\d+\.\d+)/, path);
    // On macOS g++ is clang.
    const name = /clang/i.test(text) ? 'clang++' : 'g++';
    const release = text.split('\n')[0]!;
    return {
      name,
      path,
      version,
      identity: `${release} ${hostProcessor()}`,
      anyProcessor: `${release} ${process.platform} ${process.arch}`,
    };
  }

  /** Path of a tool; undefined where there is none. */
  path(name: 'ncu' | 'compute-sanitizer' | 'cuobjdump'): string | undefined {
    return this.#find(name);
  }

  /** As far as they have answered. */
  describe(): FoundTool[] {
    return [
      this.#described(
        'nvcc',
        () => this.nvcc(),
        ({ archs }) => archs,
        'no machine code for a GPU, no registers, spills and occupancy: install the CUDA toolkit and put its bin folder on PATH or set CUDA_HOME',
      ),
      ...(this.#nvrtcFound
        ? [
            this.#described(
              'nvrtc',
              () => this.nvrtc(),
              ({ archs }) => archs,
              '',
            ),
          ]
        : []),
      this.#described(
        'g++',
        () => this.cxx(),
        () => ['emulator'],
        "the emulator and the CPU reference can't be compiled: install g++ 12 or clang++ 15 or later",
      ),
      ...(this.#wantsClang()
        ? [
            this.#described(
              'clang++',
              () => this.clang(),
              ({ archs }) => archs,
              "kernels run on the emulator's older engine, and those for Hopper don't run: install clang 16 or later (apt-get install clang-19, brew install llvm)",
            ),
          ]
        : []),
      ...Object.entries(OPTIONAL).map(([name, { pattern, without }]) => {
        const path = this.#find(name);
        return path
          ? {
              name,
              version: pattern.exec(this.#known(path, VERSION)?.trim() ?? '')?.[1] ?? 'unknown',
              archs: [],
            }
          : missing(name, without);
      }),
    ];
  }

  #described<Found extends Compiler>(
    name: string,
    find: () => Found | undefined,
    archsOf: (found: Found) => string[],
    without: string,
  ): FoundTool {
    try {
      const found = find();
      return found ? { name: found.name, version: found.version, archs: archsOf(found) } : missing(name, without);
    } catch (error) {
      if (error instanceof FlashcoreError) return missing(name, error.message);
      throw error;
    }
  }

  #find(name: string): string | undefined {
    if (name.startsWith('/')) return existsSync(name) ? name : undefined;
    const cuda = namedToolkits().map((root) => join(root, 'bin'));
    const folders = [
      ...(name.endsWith('++') ? [] : cuda),
      ...(process.env['PATH'] ?? '').split(delimiter),
      ...(name.startsWith('clang') ? HOMEBREW_LLVM : []),
      // Where a toolkit is named, it is that one or none.
      ...(cuda.length === 0 ? ['/usr/local/cuda/bin'] : []),
    ];
    return folders
      .filter((folder) => folder !== '')
      .map((folder) => join(folder, name))
      .find((path) => existsSync(path));
  }

  /** There is no nvcc, or none that works: then clangs were asked. */
  #wantsClang(): boolean {
    return (
      this.#find('nvcc') === undefined || this.#clangPaths().some((path) => this.#known(path, PTX_ARCHS) !== undefined)
    );
  }

  #clangPaths(): string[] {
    return [...new Set(CLANGS.flatMap((name) => this.#find(name) ?? []))];
  }

  #answerOf(path: string, args: readonly string[]): string {
    const answer = this.#known(path, args);
    if (answer !== undefined) return answer;
    const failure = this.#failures.get(keyOf(path, args));
    if (failure !== undefined) throw new UnusableCompiler(path, failure, { lasting: true });
    throw new UnusableCompiler(
      path,
      `${path} ${args.join(' ')} gave no answer within ${this.#limitMs / 1000} s: try again when the runner's host is less busy`,
      { lasting: false },
    );
  }

  #known(path: string, args: readonly string[]): string | undefined {
    return this.#answers.get(keyOf(path, args));
  }

  /** Asks a tool, if it is there and has not answered; one question at a time, whoever waits for it. */
  async #ask(path: string | undefined, args: readonly string[]): Promise<void> {
    if (path === undefined || this.#known(path, args) !== undefined) return;
    const key = keyOf(path, args);
    let asking = this.#asking.get(key);
    if (!asking) {
      asking = answerOf(path, args, this.#limitMs).then(({ answer, failure }) => {
        this.#failures.delete(key);
        if (answer !== undefined) this.#answers.set(key, answer);
        else if (failure !== undefined) this.#failures.set(key, failure);
        setTimeout(() => this.#asking.delete(key), answer === undefined ? this.#failureKeptMs : 0).unref();
      });
      this.#asking.set(key, asking);
    }
    await asking;
  }
}

/** CUDA_HOME, CUDA_PATH. */
const namedToolkits = (): string[] =>
  [process.env['CUDA_HOME'], process.env['CUDA_PATH']].flatMap((root) => (root ? [root] : []));

/** COMPILER_MISSING of one that is there; `lasting`: until somebody mends it. */
export class UnusableCompiler extends FlashcoreError {
  readonly lasting: boolean;

  constructor(path: string, message: string, { lasting }: { lasting: boolean }) {
    super('COMPILER_MISSING', { wanted: path }, message);
    this.lasting = lasting;
  }
}

/** A tool that was replaced is asked anew. */
const keyOf = (path: string, args: readonly string[]): string => `${path} ${statSync(path).mtimeMs} ${args.join(' ')}`;

/** Exit status of a shell that could not run a program; the next one: that did not find it. */
const NOT_RUN = 126;

interface Answer {
  /** What it prints. */
  answer?: string;
  /** Why there is none, where it is not for want of time: what to do about it. */
  failure?: string;
}

/**
 * What a program answers. One that fails at any question but the first has answered: an nvcc too old for it. One that
 * can't tell its version can't be run: no execute permission, made for another machine, its interpreter gone.
 */
async function answerOf(path: string, args: readonly string[], limitMs: number): Promise<Answer> {
  try {
    const { signal } = new AbortController();
    const { timedOut, exitCode, lines } = await runProgram(path, args, { limitMs, signal, environment: process.env });
    if (timedOut || exitCode === undefined) return {};
    if (exitCode === 0 || (args !== VERSION && exitCode < NOT_RUN)) return { answer: lines.join('\n') };
    return { failure: cannotRun(path, `ended with ${exitCode}${lines[0] ? `: ${lines[0].slice(0, 200)}` : ''}`) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Anything else: a host that is short of memory or of processes is asked again.
    return code === 'EACCES' || code === 'ENOEXEC' ? { failure: cannotRun(path, `can't be run (${code})`) } : {};
  }
}

/** Errors: COMPILER_MISSING where it says nothing of the kind: it is no compiler. */
function versionIn(text: string, pattern: RegExp, path: string): string {
  const version = pattern.exec(text)?.[1];
  if (version !== undefined) return version;
  throw new UnusableCompiler(
    path,
    cannotRun(path, `names no version${text ? `: ${text.split('\n')[0]!.slice(0, 200)}` : ''}`),
    { lasting: true },
  );
}

const cannotRun = (path: string, how: string): string =>
  `Mend ${path} or take its folder off PATH: "${path} --version" ${how}`;

function missing(name: string, without: string): FoundTool {
  return { name, archs: [], missing: without };
}

/** An nvcc of another host: what it compiled is known by its version. */
export const nvccOfVersion = (version: string): Nvcc => ({
  name: 'nvcc',
  path: '',
  version,
  identity: `nvcc ${version}`,
  archs: [],
});

/** nvcc lists sm_90 and takes sm_90a (instructions of exactly that architecture) too; it exists from 9.0 on. */
function withFeatureArchs(codes: string[]): string[] {
  const sorted = [...new Set(codes)].sort((a, b) => Number(a.slice(3)) - Number(b.slice(3)));
  return sorted.flatMap((code) => (Number(code.slice(3)) >= 90 ? [code, `${code}a`] : [code]));
}

/** Code made with -march=native is right for processors with the same features only. */
function hostProcessor(): string {
  const flags = existsSync('/proc/cpuinfo')
    ? (/^(?:flags|Features)\s*:.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '')
    : '';
  return `${process.platform} ${process.arch} ${cpus()[0]?.model ?? ''} ${flags}`;
}
