import type { HeaderTree } from './header-trees.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Compiler } from './compilers.ts';

export interface Command {
  /**
   * Without the program: that is the unit's compiler. Paths are relative to the build folder; BUILD_FOLDER stands for
   * its place.
   */
  arguments: string[];
}

/** One thing to compile: all that decides about the result, and nothing else. */
export interface CompileUnit {
  compiler: Compiler;
  /** "sm_89", "emulator", … */
  target: string;
  /** Entries of the kernel that it has alone; undefined: all of them. */
  entries?: readonly string[] | undefined;
  files: readonly SnapshotFile[];
  /** Folders of the host beside them, which arguments name by headersPlace(). */
  headers?: readonly HeaderTree[];
  /** Run one after another; the commands of a stage at the same time. None: the outputs are among the files. */
  stages: readonly (readonly Command[])[];
  outputs: readonly CompileOutput[];
  limitMs: number;
}

export interface CompileOutput {
  /** In the build folder. */
  path: string;
  /** Name for a copy on disk. */
  fileName: string;
  kind: OutputKind;
}

export type OutputKind = 'cubin' | 'ptx' | 'sass' | 'emulator-module' | 'library';

export interface CompileOptions {
  signal: AbortSignal;
  /** Somebody waits for something else: it gets what processors that needs not. */
  aside?: boolean | undefined;
  /** Each line of the compiler as it appears, with paths as the kernel folder names them. */
  onLine?: ((line: string) => void) | undefined;
  /** Nothing was in the cache: the compiler is about to run. */
  onStart?: (() => void) | undefined;
}
