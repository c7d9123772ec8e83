import type { CompileUnit } from './compile-unit.ts';
import type { Compiler } from './compilers.ts';
import type { SnapshotFile } from './source-snapshot.ts';

export interface PtxSourceOptions {
  /** nvcc, which has the assembler for GPUs. Any other compiler does not run and only identifies the host. */
  compiler: Compiler;
  /** For example "sm_89". */
  arch: string;
  files: readonly SnapshotFile[];
  /** Path of the PTX in the build folder. */
  unit: string;
  /** Name of the artifacts, without extension. */
  name: string;
  /** Flags out of COMPILER_FLAGS; only ptxas's flags have an effect here. */
  flags: readonly string[];
  /** Maximum registers per thread; 0: no limit. */
  maxRegisters: number;
}

const LIMIT_MS = 180_000;

/**
 * A kernel whose source is PTX, compiled from any language. nvcc assembles it for a GPU, and the emulator's engine
 * loads the file as it is. All flags are generated here; no request's text is used as a flag.
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
