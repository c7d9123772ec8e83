import { FlashcoreError } from '@flashcore/shared/contract';
import { DATA_SHEETS } from '@flashcore/shared/kernels';
import { clangUnit, type ClangOptions } from './clang-unit.ts';
import type { CompileCache } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';
import { chooseEmulation, type Emulation } from './emulation.ts';
import type { EngineWanted } from './emulator-engine.ts';
import { deviceHeaders, standardHeaders } from './emulator-sources.ts';
import type { FrontEnd } from './front-end.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import { ownSource } from './own-libraries.ts';
import { UnusableCompiler } from './tool-answers.ts';
import type { Toolchain } from './toolchain.ts';

/** Architecture of the emulated device. */
const EMULATED_ARCH = DATA_SHEETS[0]!.arch;
/** Front ends need less than a second for the trial kernel. */
const TRIAL_LIMIT_MS = 30_000;
const TRIAL_KERNEL = 'canary';

export interface DecidedEmulationOptions {
  wanted: EngineWanted;
  toolchain: Toolchain;
  /** Cache of the trial compilations. */
  cache: CompileCache;
  runnerFolder: string;
  emulatorFolder: string;
}

/** The choice of the emulator's engine, made once per runner, because the emulator's library has only one engine. */
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
   * The choice. Errors: COMPILER_MISSING if a compiler did not report its version; the error that prevented a trial.
   */
  now(): Emulation {
    if (this.#emulation) return this.#emulation;
    throw (
      this.#undecided ??
      new FlashcoreError('COMPILER_MISSING', {}, 'The compilers were not asked yet: try again in a moment')
    );
  }

  /** Makes the choice if it has not been made yet. Errors as above. */
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

  /** Compiles one of the runner's own kernels with a front end, once for each C++ compiler that nvcc could refuse. */
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
