import type { Clang, Nvcc, Toolchain } from './toolchain.ts';

/** What makes PTX of kernels for the emulator: nvcc, in the run that makes the cubin, or clang with headers of ours. */
export type FrontEnd = { kind: 'nvcc'; compiler: Nvcc } | { kind: 'clang'; compiler: Clang };

/** Of this host; undefined: none, kernels run on fibres. Errors: COMPILER_MISSING where one did not say what it is. */
export function findFrontEnd(toolchain: Pick<Toolchain, 'nvcc' | 'clang'>): FrontEnd | undefined {
  const nvcc = toolchain.nvcc();
  if (nvcc) return { kind: 'nvcc', compiler: nvcc };
  const clang = toolchain.clang();
  return clang && { kind: 'clang', compiler: clang };
}
