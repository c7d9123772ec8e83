import type { CompileUnit } from './compile-unit.ts';
import { type HeaderTree, headersPlace } from './header-trees.ts';
import { STUBS, type SnapshotFile } from './source-snapshot.ts';
import type { Nvcc } from './compilers.ts';

export interface NvccOptions {
  nvcc: Nvcc;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
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
  keepPtx: boolean;
  /** What kernels may include from the host, each by its own names ("cutlass/cutlass.h"). */
  headers?: readonly HeaderTree[];
  /** Entry points that the manifest launches: several are optimised side by side. */
  entries?: readonly string[];
  /** Of these entry points alone, apart from the others (kernels/mechanisms/first_entries.cuh). Default: all. */
  apart?: readonly string[] | undefined;
}

const LIMIT_MS = 180_000;

/**
 * nvcc's run for a kernel: device code only, with the assembler's report. Every flag is made here: none comes from a
 * request as text.
 */
export function nvccUnit(options: NvccOptions): CompileUnit {
  const args = [
    '-cubin',
    `-arch=${options.arch}`,
    standardOf(options.flags),
    '-O3',
    '-lineinfo',
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

/** On the include path behind all others, where a source includes what stubs stand for. */
export const stubsFolder = (files: readonly SnapshotFile[]): string[] =>
  files.some(({ path }) => path.startsWith(`${STUBS}/`)) ? ['-isystem', STUBS] : [];

/** The C++ that a kernel is written in. */
export const standardOf = (flags: readonly string[] = []): string =>
  flags.find((flag) => flag.startsWith('-std=')) ?? '-std=c++17';

/**
 * Other entries have no body and are not assembled. What they alone use would be "declared but never referenced"
 * (warning 177), of each part something else.
 */
const onlyThese = (entries: readonly string[]): string[] => [
  '-DFLASHCORE_FIRST=1',
  ...entries.map((entry) => `-DFLASHCORE_FIRST_${entry}=1`),
  '-diag-suppress=177',
  '-Xptxas',
  entries.map((entry) => `-e,${entry}`).join(','),
];

/**
 * Whether nvcc can optimise functions in threads, as many as there are processors: from 12.1 on. The code is the same:
 * all 13 sections of flashcore_v12's are, byte by byte, with nvcc 13.0.
 */
function canSplit({ version }: Nvcc): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 12 || (major === 12 && minor >= 1);
}
