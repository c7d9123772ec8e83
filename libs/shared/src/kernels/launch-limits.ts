/** CUDA's limits of a launch, for every architecture since sm_30, and its numbers for tensor maps. */
export const GRID_LIMITS = [2 ** 31 - 1, 65_535, 65_535] as const;
export const BLOCK_LIMITS = [1024, 1024, 64] as const;
export const CLUSTER_LIMITS = [16, 16, 16] as const;
export const MAX_THREADS_PER_CTA = 1024;
export const INT32 = { least: -(2 ** 31), most: 2 ** 31 - 1 } as const;
export const MAX_WORKSPACE_BYTES = 2 ** 48;

export const TENSOR_MAP_BYTES = 128;
/** The largest extent of a tensor map's box. */
export const BOX_LIMIT = 256;
/** CUtensorMapSwizzle */
export const SWIZZLES = { none: 0, '32B': 1, '64B': 2, '128B': 3 } as const;
export type Swizzle = keyof typeof SWIZZLES;
