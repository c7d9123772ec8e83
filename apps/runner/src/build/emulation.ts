import { FlashcoreError } from '@flashcore/shared/contract';
import { DATA_SHEETS } from '@flashcore/shared/kernels';
import { type EmulatorEngine, type EngineWanted, deviceHeaders, standardHeaders } from './host-libraries.ts';
import type { Toolchain } from './toolchain.ts';
import { clangUnit, type ClangOptions } from './clang-unit.ts';
import type { CompileUnit } from './compile-unit.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import { ownSource, type OwnLibrariesOptions } from './own-libraries.ts';
import { UnusableCompiler } from './tool-answers.ts';
import type { Clang, Nvcc, Nvrtc } from './compilers.ts';

/** The emulator's engine and front end, chosen once per runner. */
export interface Emulation {
  readonly engine: EmulatorEngine;
  /** The front end that makes PTX. If undefined, the PTX engine can't build kernels here. */
  readonly frontEnd: FrontEnd['kind'] | undefined;
  /** Why this engine was chosen, in a form for people, such as "nvcc 13.0.88". */
  readonly because: string;
  /** Why an installed nvcc makes no code for the emulator; undefined if it does or is missing. */
  readonly nvccProblem: string | undefined;
}

/** The reason for an engine that the user chose. */
export const BY_OPTION = 'by --emulator-engine';

/** Errors: as findFrontEnd(). */
async function chooseEmulation(
  wanted: EngineWanted,
  toolchain: Toolchain,
  options: FrontEndOptions,
): Promise<Emulation> {
  const found = await findFrontEnd(toolchain, options);
  const { frontEnd, nvccProblem } = found;
  if (wanted === 'fibres') return { engine: 'fibres', frontEnd: undefined, because: BY_OPTION, nvccProblem };
  const engine = wanted === 'ptx' || frontEnd ? 'ptx' : 'fibres';
  return { engine, frontEnd: frontEnd?.kind, because: becauseOf(found), nvccProblem };
}

function becauseOf({ frontEnd, nvccProblem, nvrtcProblem, clangProblem }: FoundFrontEnd): string {
  const problems = [nvccProblem, nvrtcProblem, clangProblem].filter((problem) => problem !== undefined);
  const found = frontEnd ? `${frontEnd.compiler.name} ${frontEnd.compiler.version}` : 'no nvcc or clang makes PTX';
  if (!frontEnd && problems.length === 0) return 'no nvcc or clang found';
  return [found, ...problems].join('; ');
}

/** Architecture of the emulated device. */
const EMULATED_ARCH = DATA_SHEETS[0]!.arch;
/** A front end needs less than a second for the trial kernel. */
const TRIAL_LIMIT_MS = 30_000;
const TRIAL_KERNEL = 'canary';

export interface DecidedEmulationOptions extends Pick<
  OwnLibrariesOptions,
  'toolchain' | 'cache' | 'runnerFolder' | 'emulatorFolder'
> {
  wanted: EngineWanted;
}

/** Chooses the emulator's engine, once per runner, because the emulator's library contains only one engine. */
export class DecidedEmulation {
  readonly #options: DecidedEmulationOptions;
  #emulation: Emulation | undefined;
  #choosing: Promise<Emulation> | undefined;
  /** Why the last attempt to choose failed. */
  #undecided: Error | undefined;

  constructor(options: DecidedEmulationOptions) {
    this.#options = options;
  }

  /**
   * The choice. Errors: COMPILER_MISSING if a compiler did not report its version; the error that prevented a trial
   * compilation.
   */
  now(): Emulation {
    if (this.#emulation) return this.#emulation;
    throw (
      this.#undecided ??
      new FlashcoreError('COMPILER_MISSING', {}, 'The compilers were not asked yet: try again in a moment')
    );
  }

  /** Makes the choice unless it is already made. Errors: as now(). */
  async decided(): Promise<Emulation> {
    if (this.#emulation) return this.#emulation;
    const { wanted, toolchain } = this.#options;
    await toolchain.askCompilers();
    this.#choosing ??= chooseEmulation(wanted, toolchain, {
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

  /**
   * Compiles one of the runner's own kernels with a front end, and returns the compiler's message if that failed.
   * Cached per C++ compiler of the host, because nvcc may refuse a new one.
   */
  async #problemOf(frontEnd: FrontEnd): Promise<string | undefined> {
    const { cache, toolchain, runnerFolder } = this.#options;
    const source = ownSource(runnerFolder, TRIAL_KERNEL);
    const common = { unit: source.path, name: TRIAL_KERNEL, defines: [], arch: EMULATED_ARCH, fastMath: false };
    const files = [source, { path: 'beside.txt', text: toolchain.cxx()?.identity ?? '' }];
    const { exitCode, timedOut, lines } = await cache.compile(
      { ...this.#unitOf(frontEnd, { ...common, files }), limitMs: TRIAL_LIMIT_MS },
      { signal: new AbortController().signal },
    );
    const { path } = frontEnd.compiler;
    if (timedOut)
      throw new UnusableCompiler(
        path,
        `${path} did not compile ${TRIAL_KERNEL}.cu within ${TRIAL_LIMIT_MS / 1000} s: try again when the runner's host is less busy`,
        { lasting: false },
      );
    if (exitCode === 0) return undefined;
    const said = lines.find((line) => /error|fatal|unsupported/i.test(line)) ?? lines[0] ?? `exit status ${exitCode}`;
    return `${path} does not compile ${TRIAL_KERNEL}.cu: ${said.trim().slice(0, 200)}`;
  }

  #unitOf({ kind, compiler }: FrontEnd, common: Omit<ClangOptions, 'clang' | 'deviceHeaders'>): CompileUnit {
    const { emulatorFolder } = this.#options;
    switch (kind) {
      case 'nvcc':
        return nvccUnit({ ...common, nvcc: compiler, maxRegisters: 0, keepPtx: true });
      case 'nvrtc':
        return nvrtcUnit({
          ...common,
          nvrtc: compiler,
          maxRegisters: 0,
          standardHeaders: standardHeaders(emulatorFolder),
        });
      case 'clang':
        return clangUnit({ ...common, clang: compiler, deviceHeaders: deviceHeaders(emulatorFolder) });
    }
  }
}

/**
 * Compilers that make PTX for the emulator: nvcc, in the same run as the cubin; NVRTC, with CUDA's headers; or clang,
 * with our own headers.
 */
interface Compilers {
  nvcc: Nvcc;
  nvrtc: Nvrtc;
  clang: Clang;
}
export type FrontEnd = { [Kind in keyof Compilers]: { kind: Kind; compiler: Compilers[Kind] } }[keyof Compilers];

interface FoundFrontEnd {
  /** The first installed front end that works; undefined if none does, so that kernels run on fibres. */
  frontEnd: FrontEnd | undefined;
  /** Why an installed nvcc makes no code for the emulator; undefined if it does or is missing. */
  nvccProblem: string | undefined;
  /** Why an installed NVRTC makes no PTX; undefined if it does, is missing or was not asked. */
  nvrtcProblem: string | undefined;
  /** Why an installed clang makes no PTX; undefined if it does, is missing or was not asked. */
  clangProblem: string | undefined;
}

interface FrontEndOptions {
  /** The emulator's architecture. */
  arch: string;
  /**
   * Compiles a trial kernel, and returns the compiler's message if it does not compile. Errors: the trial is not
   * possible now.
   */
  problemOf: (frontEnd: FrontEnd) => Promise<string | undefined>;
}

/**
 * Finds the front end that makes the emulator's PTX on this host: nvcc, or else NVRTC, or else clang. NVRTC precedes
 * clang because it is the same compiler as nvcc: its PTX gives equal counters, and its ptxas reports registers. An
 * installed compiler that does not work is skipped, for example a wrapper that fails, an nvcc that refuses the host's
 * gcc, or a clang without a back end for PTX. Errors: COMPILER_MISSING if a compiler did not report its version in
 * time, because the engine must not depend on how busy the host is.
 */
async function findFrontEnd(toolchain: Toolchain, options: FrontEndOptions): Promise<FoundFrontEnd> {
  const nvcc = await works(() => Promise.resolve(toolchain.nvcc()), 'nvcc', options);
  const none = { nvccProblem: nvcc.problem, nvrtcProblem: undefined, clangProblem: undefined };
  if (nvcc.compiler) return { ...none, frontEnd: { kind: 'nvcc', compiler: nvcc.compiler } };
  const nvrtc = await works(() => toolchain.askNvrtc(), 'nvrtc', options);
  if (nvrtc.compiler) return { ...none, frontEnd: { kind: 'nvrtc', compiler: nvrtc.compiler } };
  await toolchain.askClangs();
  const clang = await works(() => Promise.resolve(toolchain.clang()), 'clang', options);
  return {
    frontEnd: clang.compiler && { kind: 'clang', compiler: clang.compiler },
    nvccProblem: nvcc.problem,
    nvrtcProblem: nvrtc.problem,
    clangProblem: clang.problem ?? (clang.compiler ? undefined : toolchain.clangWithoutPtx()),
  };
}

async function works<Kind extends keyof Compilers>(
  find: () => Promise<Compilers[Kind] | undefined>,
  kind: Kind,
  { arch, problemOf }: FrontEndOptions,
): Promise<{ compiler?: Compilers[Kind]; problem?: string }> {
  try {
    const compiler = await find();
    if (!compiler) return {};
    if (kind === 'nvcc' && !compiler.archs.includes(arch))
      return { problem: `nvcc ${compiler.version} makes no code for ${arch}, which takes CUDA 11.8 or later` };
    const problem = await problemOf({ kind, compiler } as FrontEnd);
    return problem === undefined ? { compiler } : { problem };
  } catch (error) {
    if (error instanceof UnusableCompiler && error.lasting) return { problem: error.message };
    throw error;
  }
}
