// Fault: no __syncwarp() between writing shared memory and reading what another lane wrote.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(missing_syncwarp) {
  RowState state = attended(row);
  __shared__ float max_smem[64];
  max_smem[threadIdx.x] = state.row_max;
  // __syncwarp() belongs here
  if (max_smem[threadIdx.x ^ 1] == 12345.0f) state.row_sum = 0.0f;
  if (row.inside) store_row(row.O, state);
}
