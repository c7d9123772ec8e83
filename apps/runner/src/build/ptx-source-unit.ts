import type { CompileUnit } from './compile-unit.ts';
import type { Compiler } from './compilers.ts';
import type { SnapshotFile } from './source-snapshot.ts';

export interface PtxSourceOptions {
  /** nvcc, which has the assembler of a GPU's code; another one runs nothing, and only stands for the host's PTX. */
  compiler: Compiler;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** The PTX in the build folder. */
  unit: string;
  /** Without its extension: what artifacts are called. */
  name: string;
  /** Of COMPILER_FLAGS: of them only ptxas's are of any effect. */
  flags: readonly string[];
  /** 0: no limit. */
  maxRegisters: number;
}

const LIMIT_MS = 180_000;

/**
 * A kernel whose source is PTX, of whatever language it was compiled: nvcc assembles it for a GPU, and the emulator's
 * engine loads the file as it is. Every flag is made here: none comes from a request as text.
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
    limitMs: LIMIT_MS,
  };
}
