// Fault: two warps exchange values through volatile shared memory without a __syncthreads() in between.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(volatile_exchange) {
  RowState state = attended(row);
  __shared__ volatile float max_smem[64];
  max_smem[threadIdx.x] = state.row_max;
  // __syncthreads() belongs here
  if (max_smem[threadIdx.x ^ 32] == 12345.0f) state.row_sum = 0.0f;
  if (row.inside) store_row(row.O, state);
}
