import { KERNEL_LIMIT_MS, type CompileUnit, type DeviceCode } from './compile-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Clang } from './compilers.ts';
import { includePath, standardOf } from './nvcc-unit.ts';

export interface ClangOptions extends DeviceCode {
  clang: Clang;
  /** Substitutes for CUDA's headers, under "emulator/device_headers/" and "emulator/include/". */
  deviceHeaders: readonly SnapshotFile[];
}

/**
 * The unit that clang compiles to a kernel's PTX without a CUDA toolkit, using the emulator's own headers and none of
 * the host's. All flags are generated here; no request's text is used as a flag. Of COMPILER_FLAGS only the C++
 * standard and -DNDEBUG have an effect.
 */
export function clangUnit(options: ClangOptions): CompileUnit {
  const args = [
    '-x',
    'cuda',
    '--cuda-device-only',
    ...architecture(options.clang, options.arch),
    '-S',
    // Ignores a CUDA toolkit on this host, so that the code is the same everywhere.
    '--cuda-path=none',
    '-nocudainc',
    '-nocudalib',
    '-nostdlibinc',
    '-isystem',
    'emulator/device_headers',
    '-isystem',
    'emulator/include',
    '-include',
    'cuda_runtime.h',
    standardOf(options.flags),
    '-O3',
    // Like nvcc -lineinfo: gives faults, races and counters their lines.
    '-gline-tables-only',
    // Like nvcc: products are fused into sums, and pointers of different types may alias.
    '-ffp-contract=fast',
    '-fno-strict-aliasing',
    // Like nvcc, inlines nearly every call, so that wgmma accumulators captured by a lambda stay in registers.
    '-mllvm',
    '-inline-threshold=1000000',
    ...(options.fastMath ? FAST_MATH : []),
    ...(options.flags ?? []).filter((flag) => flag.startsWith('-D')),
    ...options.defines,
    ...includePath(options),
    // Suppresses the warning about a loop that clang can't unroll, because the kernel's author need not correct that.
    '-Wno-pass-failed',
    '-Wno-unknown-pragmas',
    // Only a warning for dim3{n / 16} with a size_t n, as with nvcc's host compilers.
    '-Wno-error=c++11-narrowing',
    '-fdiagnostics-color=never',
    '-ferror-limit=50',
    '-o',
    'kernel.ptx',
    options.unit,
  ];
  return {
    compiler: options.clang,
    target: options.arch,
    files: [...options.files, ...options.deviceHeaders],
    ...(options.headers && options.headers.length > 0 && { headers: options.headers }),
    stages: [[{ arguments: args }]],
    outputs: [{ path: 'kernel.ptx', fileName: `${options.name}.${options.arch}.ptx`, kind: 'ptx' }],
    limitMs: KERNEL_LIMIT_MS,
  };
}

/**
 * PTX versions, newest first, each with the first version of clang that can write it. The headers' instructions need
 * PTX 7.1.
 */
const PTX_VERSIONS = [
  { from: 17, feature: '+ptx80' },
  { from: 16, feature: '+ptx78' },
  { from: 0, feature: '+ptx75' },
];

/**
 * Flags for the architecture or, for an older clang, for the newest earlier architecture that it knows. The emulator's
 * engine accepts instructions of any architecture, and __CUDA_ARCH__ always names the requested one.
 */
function architecture({ version, archs }: Clang, arch: string): string[] {
  const number = (name: string): number => parseInt(name.slice(3), 10);
  const known = archs.includes(arch)
    ? arch
    : archs
        .filter((name) => /\d$/.test(name) && number(name) <= number(arch))
        .toSorted((a, b) => number(b) - number(a))[0]!;
  const { feature } = PTX_VERSIONS.find(({ from }) => parseInt(version, 10) >= from)!;
  return [
    `--cuda-gpu-arch=${known}`,
    ...(known === arch ? [] : ['-Wno-builtin-macro-redefined', '-U__CUDA_ARCH__', `-D__CUDA_ARCH__=${number(arch)}0`]),
    '-Xclang',
    '-target-feature',
    '-Xclang',
    feature,
  ];
}

/** The effects of nvcc's --use_fast_math: subnormals become 0, quotients and roots are approximate. */
const FAST_MATH = [
  '-DFLASHCORE_FAST_MATH=1',
  '-fcuda-flush-denormals-to-zero',
  '-mllvm',
  '-nvptx-prec-divf32=0',
  '-mllvm',
  '-nvptx-prec-sqrtf32=0',
];
