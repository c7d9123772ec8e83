import type { CompileUnit } from './compile-unit.ts';
import { type HeaderTree, headersPlace } from './header-trees.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Clang } from './compilers.ts';
import { standardOf, stubsFolder } from './nvcc-unit.ts';

export interface ClangOptions {
  clang: Clang;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** What stands for CUDA's headers, under "emulator/device_headers/" and "emulator/include/". */
  deviceHeaders: readonly SnapshotFile[];
  /** Translation unit in the build folder. */
  unit: string;
  /** Without its extension: what artifacts are called. */
  name: string;
  defines: readonly string[];
  fastMath: boolean;
  /** Of COMPILER_FLAGS: of them only the C++ standard is of any effect. */
  flags?: readonly string[];
  /** What kernels may include from the host, each by its own names. */
  headers?: readonly HeaderTree[];
}

const LIMIT_MS = 180_000;

/**
 * clang's run that makes PTX of a kernel where there is no CUDA toolkit: with headers of the emulator's own, and none
 * of the host. Every flag is made here: none comes from a request as text.
 */
export function clangUnit(options: ClangOptions): CompileUnit {
  const args = [
    '-x',
    'cuda',
    '--cuda-device-only',
    ...architecture(options.clang, options.arch),
    '-S',
    // Not one that this host may have: the code is the same everywhere.
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
    // As nvcc -lineinfo: the lines of faults, races and counters.
    '-gline-tables-only',
    // As nvcc: products are fused into sums, and pointers of different types may mean the same bytes.
    '-ffp-contract=fast',
    '-fno-strict-aliasing',
    // As nvcc, which makes calls of next to nothing: accumulators of wgmma that a lambda holds stay in registers.
    '-mllvm',
    '-inline-threshold=1000000',
    ...(options.fastMath ? FAST_MATH : []),
    ...options.defines,
    '-I',
    'kernel',
    '-I',
    'kernels',
    ...(options.headers ?? []).flatMap(({ name }) => ['-isystem', headersPlace(name)]),
    ...stubsFolder(options.files),
    // A loop that it can't unroll is not what the kernel's author has to correct.
    '-Wno-pass-failed',
    '-Wno-unknown-pragmas',
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
    limitMs: LIMIT_MS,
  };
}

/** Of a clang: what PTX it writes at most, by its first version; instructions of the headers ask for 7.1. */
const PTX_VERSIONS = [
  { from: 17, feature: '+ptx80' },
  { from: 16, feature: '+ptx78' },
  { from: 0, feature: '+ptx75' },
];

/**
 * The architecture, or for one that an older clang does not know the newest that it does: the emulator's engine takes
 * instructions of any, and sources see the one that they are compiled for.
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

/** What nvcc's --use_fast_math does: subnormals are 0, quotients and roots are approximations. */
const FAST_MATH = [
  '-DFLASHCORE_FAST_MATH=1',
  '-fcuda-flush-denormals-to-zero',
  '-mllvm',
  '-nvptx-prec-divf32=0',
  '-mllvm',
  '-nvptx-prec-sqrtf32=0',
];
