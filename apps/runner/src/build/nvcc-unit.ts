import type { CompileUnit } from './compile-unit.ts';
import { type HeaderTree, headersPlace } from './header-trees.ts';
import { STUBS, type SnapshotFile } from './source-snapshot.ts';
import type { Nvcc } from './compilers.ts';

export interface NvccOptions {
  nvcc: Nvcc;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** Path of the translation unit in the build folder. */
  unit: string;
  /** Name of the artifacts, without extension. */
  name: string;
  defines: readonly string[];
  fastMath: boolean;
  /** Flags out of COMPILER_FLAGS. */
  flags?: readonly string[];
  /** Maximum registers per thread; 0: no limit. */
  maxRegisters: number;
  keepPtx: boolean;
  /** Header folders of the host that kernels may include under their usual names ("cutlass/cutlass.h"). */
  headers?: readonly HeaderTree[];
  /** Entry points that the manifest launches; several are optimized in parallel. */
  entries?: readonly string[];
  /** Compiles only these entry points (kernels/mechanisms/first_entries.cuh). Default: all. */
  apart?: readonly string[] | undefined;
}

const LIMIT_MS = 180_000;

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
    // nvcc takes other names than .cu for host code.
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
    '-I',
    'kernel',
    '-I',
    'kernels',
    ...(options.headers ?? []).flatMap(({ name }) => ['-isystem', headersPlace(name)]),
    ...stubsFolder(options.files),
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
    limitMs: LIMIT_MS,
  };
}

/** Adds the stubs at the end of the include path if a source includes any of them. */
export const stubsFolder = (files: readonly SnapshotFile[]): string[] =>
  files.some(({ path }) => path.startsWith(`${STUBS}/`)) ? ['-isystem', STUBS] : [];

/** The C++ standard for a kernel's sources. */
export const standardOf = (flags: readonly string[] = []): string =>
  flags.find((flag) => flag.startsWith('-std=')) ?? '-std=c++17';

/**
 * Other entries have no body and are not assembled. nvcc would warn that functions used only by them are "declared but
 * never referenced" (177), with a different warning for each part.
 */
const onlyThese = (entries: readonly string[]): string[] => [
  '-DFLASHCORE_FIRST=1',
  ...entries.map((entry) => `-DFLASHCORE_FIRST_${entry}=1`),
  '-diag-suppress=177',
  '-Xptxas',
  entries.map((entry) => `-e,${entry}`).join(','),
];

/**
 * Whether nvcc can optimize functions in parallel threads, which works from 12.1 on. The code is the same: with nvcc
 * 13.0 all 13 sections of flashcore_v12 are equal byte by byte.
 */
function canSplit({ version }: Nvcc): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 12 || (major === 12 && minor >= 1);
}
