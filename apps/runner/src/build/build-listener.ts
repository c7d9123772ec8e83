import type { Compilation } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';

export interface BuildListener {
  signal: AbortSignal;
  /** Nobody waits for it: it gets what processors others leave. */
  aside?: boolean | undefined;
  /** A line of "nvcc", "clang++" or "g++". */
  onLine?: (source: string, line: string) => void;
  /** A compiler is about to run: nothing was in the cache. */
  onStart?: (() => void) | undefined;
  /** Told of each compilation, also of one that was found in the cache, and of one that failed. */
  onCompiled?: ((unit: CompileUnit, compilation: Compilation) => void) | undefined;
}
