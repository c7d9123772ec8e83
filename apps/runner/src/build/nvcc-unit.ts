import { KERNEL_LIMIT_MS, type CompileUnit, type DeviceCode } from './compile-unit.ts';
import { headersPlace } from './header-trees.ts';
import { STUBS } from './source-snapshot.ts';
import type { Nvcc, Compiler } from './compilers.ts';

export interface NvccOptions extends DeviceCode {
  nvcc: Nvcc;
  /** Maximum registers per thread; 0: no limit. */
  maxRegisters: number;
  keepPtx: boolean;
  /** Entry points that the manifest launches; several are optimized in parallel. */
  entries?: readonly string[];
  /**
   * Compiles only these entry points separately (kernels/mechanisms/first_entries.cuh). Default: all of them together.
   */
  apart?: readonly string[] | undefined;
}

/**
 * nvcc's unit for a kernel: device code only, with the assembler's report. All flags are generated here; no request's
 * text is used as a flag.
 */
export function nvccUnit(options: NvccOptions): CompileUnit {
  const args = [
    '-cubin',
    `-arch=${options.arch}`,
    standardOf(options.flags),
    '-O3',
    '-lineinfo',
    // Without -x cu, nvcc would compile files with other extensions as host code.
    ...(/\.(cu|ptx)$/.test(options.unit) ? [] : ['-x', 'cu']),
    '-Xptxas',
    '-v',
    ...(options.fastMath ? ['--use_fast_math'] : []),
    ...(options.flags ?? []).filter((flag) => !flag.startsWith('-std=')),
    ...(options.maxRegisters > 0 ? [`-maxrregcount=${options.maxRegisters}`] : []),
    ...((options.apart ?? options.entries ?? []).length > 1 && canSplit(options.nvcc) ? ['--split-compile=0'] : []),
    ...(options.keepPtx ? ['--keep', '--keep-dir', '.'] : []),
    ...options.defines,
    ...(options.apart ? onlyThese(options.apart) : []),
    ...includePath(options),
    '-o',
    'kernel.cubin',
    options.unit,
  ];
  const ptx = `${options.unit
    .split('/')
    .at(-1)!
    .replace(/\.[^.]+$/, '')}.ptx`;
  const name = `${options.apart?.length === 1 ? options.apart[0] : options.name}.${options.arch}`;
  return {
    compiler: options.nvcc,
    target: options.arch,
    ...(options.apart && { entries: options.apart }),
    files: options.files,
    ...(options.headers && options.headers.length > 0 && { headers: options.headers }),
    stages: [[{ arguments: args }]],
    outputs: [
      { path: 'kernel.cubin', fileName: `${name}.cubin`, kind: 'cubin' },
      ...(options.keepPtx ? [{ path: ptx, fileName: `${name}.ptx`, kind: 'ptx' as const }] : []),
    ],
    limitMs: KERNEL_LIMIT_MS,
  };
}

/** The kernel's include path. The folder of stubs comes last, and only if a source includes a stub. */
export const includePath = ({ headers = [], files }: DeviceCode): string[] => [
  ...['-I', 'kernel', '-I', 'kernels'],
  ...headers.flatMap(({ name }) => ['-isystem', headersPlace(name)]),
  ...(files.some(({ path }) => path.startsWith(`${STUBS}/`)) ? ['-isystem', STUBS] : []),
];

/** The C++ standard for a kernel's sources. */
export const standardOf = (flags: readonly string[] = []): string =>
  flags.find((flag) => flag.startsWith('-std=')) ?? '-std=c++17';

/**
 * Compiles only these entries: all others have no body and are not assembled. Without -diag-suppress=177, nvcc would
 * warn in each part about other functions that are "declared but never referenced".
 */
const onlyThese = (entries: readonly string[]): string[] => [
  '-DFLASHCORE_FIRST=1',
  ...entries.map((entry) => `-DFLASHCORE_FIRST_${entry}=1`),
  '-diag-suppress=177',
  '-Xptxas',
  entries.map((entry) => `-e,${entry}`).join(','),
];

/**
 * Whether nvcc can optimize functions in parallel threads, which works from 12.1 on. It makes the same code: with nvcc
 * 13.0 all 13 sections of flashcore_v12 are equal byte by byte.
 */
function canSplit({ version }: Nvcc): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 12 || (major === 12 && minor >= 1);
}

export interface PtxSourceOptions extends Pick<DeviceCode, 'arch' | 'files' | 'unit' | 'name'> {
  /** nvcc, which includes the assembler for GPUs. Any other compiler is not run; it only identifies the host. */
  compiler: Compiler;
  /** A selection of COMPILER_FLAGS; only those for ptxas have an effect here. */
  flags: readonly string[];
  /** Maximum registers per thread; 0: no limit. */
  maxRegisters: number;
}

/**
 * The unit of a kernel whose source is PTX, compiled from any language. nvcc assembles it for a GPU; the emulator's
 * engine loads the source as it is. All flags are generated here; no request's text is used as a flag.
 */
export function ptxSourceUnit(options: PtxSourceOptions): CompileUnit {
  const { compiler, arch, files, unit, name, flags, maxRegisters } = options;
  const assembles = compiler.name === 'nvcc';
  const args = [
    '-cubin',
    `-arch=${arch}`,
    '-lineinfo',
    '-Xptxas',
    '-v',
    ...flags.filter((flag) => flag.startsWith('-Xptxas')),
    ...(maxRegisters > 0 ? [`-maxrregcount=${maxRegisters}`] : []),
    '-o',
    'kernel.cubin',
    unit,
  ];
  return {
    compiler,
    target: arch,
    files,
    stages: assembles ? [[{ arguments: args }]] : [],
    outputs: [
      ...(assembles ? [{ path: 'kernel.cubin', fileName: `${name}.${arch}.cubin`, kind: 'cubin' as const }] : []),
      { path: unit, fileName: `${name}.${arch}.ptx`, kind: 'ptx' },
    ],
    limitMs: KERNEL_LIMIT_MS,
  };
}
