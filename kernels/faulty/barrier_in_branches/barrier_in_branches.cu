// Fault: threads with odd and even numbers call __syncthreads() in different branches.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(barrier_in_branches) {
  RowState state = attended(row);
  __shared__ float max_smem[64];
  if (threadIdx.x % 2) {
    max_smem[threadIdx.x] = state.row_max;
    __syncthreads();
  } else {
    __syncthreads();
    if (max_smem[threadIdx.x + 1] == 12345.0f) state.row_sum = 0.0f;
  }
  if (row.inside) store_row(row.O, state);
}
