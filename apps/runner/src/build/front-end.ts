import type { Clang, Nvcc, Nvrtc } from './compilers.ts';
import { UnusableCompiler } from './tool-answers.ts';
import type { Toolchain } from './toolchain.ts';

/**
 * What makes PTX of kernels for the emulator: nvcc, in the run that makes the cubin; NVRTC, with CUDA's headers; or
 * clang with headers of ours.
 */
interface Compilers {
  nvcc: Nvcc;
  nvrtc: Nvrtc;
  clang: Clang;
}
export type FrontEnd = { [Kind in keyof Compilers]: { kind: Kind; compiler: Compilers[Kind] } }[keyof Compilers];

export interface FoundFrontEnd {
  /** The first that there is and that works; undefined: none, kernels run on fibres. */
  frontEnd: FrontEnd | undefined;
  /** Why nvcc, which is there, makes no code for the emulator; undefined: it does, or is not there. */
  nvccProblem: string | undefined;
  /** Why NVRTC, which is there, makes none; undefined: it does, is not there, or was not asked for. */
  nvrtcProblem: string | undefined;
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
 * What makes the emulator's PTX on this host: nvcc, or else NVRTC, which is of the same make (its PTX has the counters
 * of nvcc's, and its ptxas says registers), or else clang. One that is there and does not work (a wrapper that
 * fails, an nvcc that refuses the host's gcc, a clang without a back end for PTX) is passed over. Errors:
 * COMPILER_MISSING where one did not say in time what it is: a busy host must not change the engine.
 */
export async function findFrontEnd(toolchain: Toolchain, options: FrontEndOptions): Promise<FoundFrontEnd> {
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
