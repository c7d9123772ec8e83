import type { ManifestArgument } from '@flashcore/shared/kernels';

const EXPORTED_KINDS = ['tensor', 'workspace', 'int32', 'float32', 'tensorMap'] as const;
export type ExportedArgument = Extract<ManifestArgument, { kind: (typeof EXPORTED_KINDS)[number] }>;

/** True if exported programs can pass the argument. */
export const isExported = (argument: ManifestArgument): argument is ExportedArgument =>
  EXPORTED_KINDS.some((kind) => kind === argument.kind);

/** Narrows the type; exportProblem() has already refused kernels with other arguments. */
export function exported(argument: ManifestArgument): ExportedArgument {
  if (!isExported(argument))
    throw new TypeError(`exports must pass ${EXPORTED_KINDS.join(', ')}, got ${argument.kind}`);
  return argument;
}

/** CUDA's launch limits, the same as in the runner's own plans. */
export const GRID_LIMITS = [2 ** 31 - 1, 65_535, 65_535] as const;
export const BLOCK_LIMITS = [1024, 1024, 64] as const;
export const CLUSTER_LIMIT = [16, 16, 16] as const;
export const BOX_LIMIT = 256;
export const INT32 = { least: -(2 ** 31), most: 2 ** 31 - 1 } as const;
export const MAX_WORKSPACE_BYTES = 2 ** 48;
