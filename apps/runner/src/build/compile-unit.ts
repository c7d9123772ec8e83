import type { HeaderTree } from './header-trees.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Compiler } from './compilers.ts';

export interface Command {
  /**
   * Arguments without the program, which is the unit's compiler. Paths are relative to the build folder; BUILD_FOLDER
   * is replaced by its path.
   */
  arguments: string[];
}

/** One thing to compile, with everything that affects the result and nothing else. */
export interface CompileUnit {
  compiler: Compiler;
  /** For example "sm_89" or "emulator". */
  target: string;
  /** The entries of the kernel that this unit contains; undefined: all. */
  entries?: readonly string[] | undefined;
  files: readonly SnapshotFile[];
  /** Header folders of the host, which arguments name by headersPlace(). */
  headers?: readonly HeaderTree[];
  /**
   * Stages run one after another, and a stage's commands in parallel. Without stages, the outputs are among the files.
   */
  stages: readonly (readonly Command[])[];
  outputs: readonly CompileOutput[];
  limitMs: number;
}

/** Limit on the compilation of a kernel. */
export const KERNEL_LIMIT_MS = 180_000;

/** A kernel's device code, in the form that all of its compilers take. */
export interface DeviceCode {
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** Path of the translation unit in the build folder. */
  unit: string;
  /** Name of the artifacts, without extension. */
  name: string;
  defines: readonly string[];
  fastMath: boolean;
  /** Flags from COMPILER_FLAGS. */
  flags?: readonly string[];
  /** Header folders of the host: kernels include their files by the usual names, such as "cutlass/cutlass.h". */
  headers?: readonly HeaderTree[];
}

export interface CompileOutput {
  /** Path in the build folder. */
  path: string;
  /** Name for a copy on disk. */
  fileName: string;
  kind: OutputKind;
}

export type OutputKind = 'cubin' | 'ptx' | 'sass' | 'emulator-module' | 'library';

export interface CompileOptions {
  signal: AbortSignal;
  /** A background compilation, which uses only the processor time that other processes leave. */
  aside?: boolean | undefined;
  /** Called with each line of the compiler as it appears, with paths as the kernel folder names them. */
  onLine?: ((line: string) => void) | undefined;
  /** Called when the compiler is about to run because nothing was in the cache. */
  onStart?: ((usual: UsualTime) => void) | undefined;
  /** Called when the unit is already being compiled for another build, whose end is awaited. */
  onWait?: ((under: CompilationUnderWay) => void) | undefined;
}

/** Seconds that the last successful compilation of a unit of the same name took; undefined if there was none. */
export type UsualTime = number | undefined;

/** A compilation that another build began. */
export interface CompilationUnderWay {
  /** Whether it began in the background. */
  aside: boolean;
  /** Seconds since it began. */
  seconds: number;
  usual: UsualTime;
}
