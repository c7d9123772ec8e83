import type { CompileUnit } from './compile-unit.ts';
import { type HeaderTree, headersPlace } from './header-trees.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Nvrtc } from './compilers.ts';
import { standardOf } from './nvcc-unit.ts';

export interface NvrtcOptions {
  nvrtc: Nvrtc;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** What stands for the C and C++ library's headers, under "emulator/nvrtc/headers/". */
  standardHeaders: readonly SnapshotFile[];
  /** Translation unit in the build folder. */
  unit: string;
  /** Without its extension: what artifacts are called. */
  name: string;
  defines: readonly string[];
  fastMath: boolean;
  /** Of COMPILER_FLAGS. */
  flags?: readonly string[];
  /** 0: no limit. */
  maxRegisters: number;
  /** What kernels may include from the host, each by its own names. */
  headers?: readonly HeaderTree[];
}

const LIMIT_MS = 180_000;
/** The flags that NVRTC takes too: it compiles device code only, so the others have nothing to change. */
const OWN_FLAGS = /^(?:-Xptxas=|--extra-device-vectorization$)/;

/**
 * The run of NVIDIA's run-time compiler (libs/emulator/nvrtc) that makes PTX of a kernel where there is no nvcc, with
 * its ptxas's report. Every flag is made here: none comes from a request as text.
 */
export function nvrtcUnit(options: NvrtcOptions): CompileUnit {
  const { nvrtc } = options;
  // What lies on the host is known by its version, as nvcc's own headers are.
  const digest = nvrtc.identity;
  const cuda: HeaderTree[] = nvrtc.place.includes.map((folder, index) => ({ name: `cuda-${index}`, folder, digest }));
  const library: HeaderTree = { name: 'nvrtc', folder: nvrtc.place.libraries, digest };
  const args = [
    headersPlace(library.name),
    `--gpu-architecture=${options.arch}`,
    `-${standardOf(options.flags)}`,
    '-lineinfo',
    '--ptxas-options=-v',
    // It takes no functions of the host, which CUDA's headers declare.
    '-default-device',
    // A constant that nobody reads is a variable of the device to it.
    '-diag-suppress=177',
    '--pre-include=flashcore_before.h',
    ...(options.fastMath ? ['--use_fast_math'] : []),
    ...(options.flags ?? [])
      .filter((flag) => OWN_FLAGS.test(flag))
      .map((flag) => flag.replace('-Xptxas', '--ptxas-options')),
    ...(options.maxRegisters > 0 ? [`--maxrregcount=${options.maxRegisters}`] : []),
    ...options.defines,
    '-I',
    'kernel',
    '-I',
    'kernels',
    ...[...cuda, ...(options.headers ?? [])].flatMap(({ name }) => ['-I', headersPlace(name)]),
    '-I',
    'emulator/nvrtc/headers',
    '-o',
    'kernel.ptx',
    options.unit,
  ];
  return {
    compiler: nvrtc,
    target: options.arch,
    files: [...options.files, ...options.standardHeaders],
    headers: [library, ...cuda, ...(options.headers ?? [])],
    stages: [[{ arguments: args }]],
    outputs: [{ path: 'kernel.ptx', fileName: `${options.name}.${options.arch}.ptx`, kind: 'ptx' }],
    limitMs: LIMIT_MS,
  };
}
