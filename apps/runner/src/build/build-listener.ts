import type { Compilation } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';

export interface BuildListener {
  signal: AbortSignal;
  /** A background build, which only uses processors that others leave idle. */
  aside?: boolean | undefined;
  /** Called with each line of "nvcc", "clang++" or "g++". */
  onLine?: (source: string, line: string) => void;
  /** Called when a compiler is about to run because nothing was in the cache. */
  onStart?: (() => void) | undefined;
  /** Called for each compilation, even if it was in the cache or failed. */
  onCompiled?: ((unit: CompileUnit, compilation: Compilation) => void) | undefined;
}
