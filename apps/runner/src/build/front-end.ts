import type { Clang, Nvcc, Nvrtc } from './compilers.ts';
import { UnusableCompiler } from './tool-answers.ts';
import type { Toolchain } from './toolchain.ts';

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

export interface FoundFrontEnd {
  /** The first installed one that works; undefined if none does, so that kernels run on fibres. */
  frontEnd: FrontEnd | undefined;
  /** Why an installed nvcc makes no code for the emulator; undefined if it does or is missing. */
  nvccProblem: string | undefined;
  /** Why an installed NVRTC makes no PTX; undefined if it does, is missing or was not asked. */
  nvrtcProblem: string | undefined;
  /** Why an installed clang makes no PTX; undefined if it does, is missing or was not asked. */
  clangProblem: string | undefined;
}

export interface FrontEndOptions {
  /** The emulator's architecture. */
  arch: string;
  /** Compiles a trial kernel. Returns the compiler's message if that failed. Errors: the trial is not possible now. */
  problemOf: (frontEnd: FrontEnd) => Promise<string | undefined>;
}

/**
 * Finds the front end that makes the emulator's PTX on this host. It prefers nvcc, then NVRTC, which is the same
 * compiler (equal counters in its PTX, and its ptxas reports registers), then clang. An installed one that does not
 * work is skipped, for example a wrapper that fails, an nvcc that refuses the host's gcc, or a clang without a back end
 * for PTX. Errors: COMPILER_MISSING if one did not report its version in time, because a busy host must not change the
 * engine.
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
