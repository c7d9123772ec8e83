/** A multiprocessor as the model knows it, in cycles unless said otherwise. */
export interface Machine {
  device: string;
  arch: string;
  /** Of the SMs, while it is not throttled. */
  clockMhz: number;
  alu: number;
  fma: number;
  half: number;
  convert: number;
  specialFunction: number;
  /** Between two special functions of a scheduler. */
  specialFunctionInterval: number;
  /** Of shared memory. */
  sharedLoad: number;
  /** Of ldmatrix and wmma's operands. */
  matrixLoad: number;
  /** Of L2: inputs are hot. */
  globalLoad: number;
  shuffle: number;
  vote: number;
  /** From the last warp's arrival. */
  barrier: number;
  branch: number;
  /** Of %tid and its like. */
  specialRegister: number;
  /** Of m16n8k16. */
  mma: number;
  /** Between two m16n8k16 of a scheduler. */
  mmaInterval: number;
  /** Between two instructions of a scheduler for memory. */
  memoryInterval: number;
  /** That shared memory gives back to registers a cycle. */
  returnedBytes: number;
  /** Of 32 bytes, that a multiprocessor gets of L2 a cycle. */
  sectors: number;
}

/**
 * Hopper, sm_90. The values are of the order that these report, written down without their tables at hand: shared
 * memory, L2 and mma.sync (which reaches some 62 % of the tensor cores' peak, m16n8k16 every 4 cycles a scheduler), Luo
 * et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (arXiv 2402.13499);
 * rates of arithmetic, the CUDA programming guide's table of throughput for compute capability 9.0; dependent
 * arithmetic, shuffles and special functions, Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
 * Microbenchmarking" (arXiv 1804.06826). None was fitted: what the model is worth is what `npm run estimates` measures.
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
