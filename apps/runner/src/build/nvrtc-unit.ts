import { KERNEL_LIMIT_MS, type CompileUnit, type DeviceCode } from './compile-unit.ts';
import { type HeaderTree, headersPlace } from './header-trees.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Nvrtc } from './compilers.ts';
import { standardOf } from './nvcc-unit.ts';

export interface NvrtcOptions extends DeviceCode {
  nvrtc: Nvrtc;
  /** Substitutes for the headers of the C and C++ libraries, under "emulator/nvrtc/headers/". */
  standardHeaders: readonly SnapshotFile[];
  /** Maximum registers per thread; 0: no limit. */
  maxRegisters: number;
}

/**
 * The flags in COMPILER_FLAGS that NVRTC accepts too. The others have no effect, because NVRTC compiles only device
 * code.
 */
const OWN_FLAGS = /^(?:-Xptxas=|--extra-device-vectorization$)/;

/**
 * The unit that NVIDIA's run-time compiler (libs/emulator/nvrtc) compiles to a kernel's PTX without nvcc. NVRTC
 * contains ptxas, whose report is included. All flags are generated here; no request's text is used as a flag.
 */
export function nvrtcUnit(options: NvrtcOptions): CompileUnit {
  const { nvrtc } = options;
  // CUDA's headers are identified by the compiler's version, as nvcc's are.
  const digest = nvrtc.identity;
  const cuda: HeaderTree[] = nvrtc.place.includes.map((folder, index) => ({ name: `cuda-${index}`, folder, digest }));
  const library: HeaderTree = { name: 'nvrtc', folder: nvrtc.place.libraries, digest };
  const args = [
    headersPlace(library.name),
    `--gpu-architecture=${options.arch}`,
    `-${standardOf(options.flags)}`,
    '-lineinfo',
    '--ptxas-options=-v',
    // Makes the functions in CUDA's headers device functions, because NVRTC accepts no host functions.
    '-default-device',
    // NVRTC treats a constant as a device variable and would warn if it is unused.
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
    limitMs: KERNEL_LIMIT_MS,
  };
}
