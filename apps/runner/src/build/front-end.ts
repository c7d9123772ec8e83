import { UnusableCompiler, type Clang, type Nvcc, type Toolchain } from './toolchain.ts';

/** What makes PTX of kernels for the emulator: nvcc, in the run that makes the cubin, or clang with headers of ours. */
export type FrontEnd = { kind: 'nvcc'; compiler: Nvcc } | { kind: 'clang'; compiler: Clang };

export interface FoundFrontEnd {
  /** The first that there is and that works; undefined: none, kernels run on fibres. */
  frontEnd: FrontEnd | undefined;
  /** Why nvcc, which is there, makes no code for the emulator; undefined: it does, or is not there. */
  nvccProblem: string | undefined;
  /** Why clang, which is there, makes none; undefined: it does, is not there, or was not asked for. */
  clangProblem: string | undefined;
}

export interface FrontEndOptions {
  /** The emulator's architecture. */
  arch: string;
  /** Has it compile a kernel; what it said where that failed. Errors: where that can't be tried now. */
  problemOf: (frontEnd: FrontEnd) => Promise<string | undefined>;
}

/**
 * What makes the emulator's PTX on this host: nvcc, or else clang. One that is there and does not work (a wrapper that
 * fails, an nvcc that refuses the host's gcc, a clang without a back end for PTX) is passed over. Errors:
 * COMPILER_MISSING where one did not say in time what it is: a busy host must not change the engine.
 */
export async function findFrontEnd(toolchain: Toolchain, options: FrontEndOptions): Promise<FoundFrontEnd> {
  const nvcc = await works(() => toolchain.nvcc(), 'nvcc', options);
  if (nvcc.compiler)
    return { frontEnd: { kind: 'nvcc', compiler: nvcc.compiler }, nvccProblem: undefined, clangProblem: undefined };
  await toolchain.askClangs();
  const clang = await works(() => toolchain.clang(), 'clang', options);
  return {
    frontEnd: clang.compiler && { kind: 'clang', compiler: clang.compiler },
    nvccProblem: nvcc.problem,
    clangProblem: clang.problem ?? (clang.compiler ? undefined : toolchain.clangWithoutPtx()),
  };
}

async function works<Kind extends FrontEnd['kind']>(
  find: () => Extract<FrontEnd, { kind: Kind }>['compiler'] | undefined,
  kind: Kind,
  { arch, problemOf }: FrontEndOptions,
): Promise<{ compiler?: Extract<FrontEnd, { kind: Kind }>['compiler']; problem?: string }> {
  try {
    const compiler = find();
    if (!compiler) return {};
    if (kind === 'nvcc' && !compiler.archs.includes(arch))
      return { problem: `nvcc ${compiler.version} makes no code for ${arch}, which takes CUDA 11.8 or later` };
    const problem = await problemOf({ kind, compiler });
    return problem === undefined ? { compiler } : { problem };
  } catch (error) {
    if (error instanceof UnusableCompiler && error.lasting) return { problem: error.message };
    throw error;
  }
}
