/** A multiprocessor as the model describes it. Values are in cycles unless stated otherwise. */
export interface Machine {
  device: string;
  arch: string;
  /** SM clock without throttling. */
  clockMhz: number;
  alu: number;
  fma: number;
  half: number;
  convert: number;
  specialFunction: number;
  /** Cycles between two special functions on a scheduler. */
  specialFunctionInterval: number;
  /** Latency of a load from shared memory. */
  sharedLoad: number;
  /** Latency of ldmatrix and of loading wmma's operands. */
  matrixLoad: number;
  /** Latency of an L2 hit, because inputs are hot. */
  globalLoad: number;
  shuffle: number;
  vote: number;
  /** Latency of a barrier, from the last warp's arrival. */
  barrier: number;
  branch: number;
  /** Latency of reading %tid and similar registers. */
  specialRegister: number;
  /** Latency of m16n8k16. */
  mma: number;
  /** Cycles between two m16n8k16 on a scheduler. */
  mmaInterval: number;
  /** Cycles between two memory instructions on a scheduler. */
  memoryInterval: number;
  /** Bytes that shared memory returns to registers per cycle. */
  returnedBytes: number;
  /** Sectors of 32 bytes that a multiprocessor gets from L2 per cycle. */
  sectors: number;
}

/**
 * Hopper, sm_90. The values have the magnitude that the following sources report, but were written down without their
 * tables at hand. Shared memory, L2 and mma.sync (about 62 % of the tensor cores' peak, one m16n8k16 every 4 cycles per
 * scheduler): Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (arXiv
 * 2402.13499). Arithmetic rates: the CUDA programming guide's table of throughput for compute capability 9.0. Dependent
 * arithmetic, shuffles and special functions: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
 * Microbenchmarking" (arXiv 1804.06826). No value was fitted; `npm run estimates` measures the model's error.
 */
export const HOPPER: Machine = {
  device: 'NVIDIA H200',
  arch: 'sm_90',
  clockMhz: 1980,
  alu: 4.5,
  fma: 4,
  half: 5,
  convert: 5,
  specialFunction: 20,
  specialFunctionInterval: 8,
  sharedLoad: 29,
  matrixLoad: 33,
  globalLoad: 263,
  shuffle: 24,
  vote: 10,
  barrier: 22,
  branch: 8,
  specialRegister: 20,
  mma: 33,
  mmaInterval: 6.5,
  memoryInterval: 2,
  returnedBytes: 128,
  sectors: 2,
};
