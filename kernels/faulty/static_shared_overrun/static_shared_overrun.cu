// Fault: the row sums of two warps are stored one row too far,
// so that the second warp writes past the end of the array.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(static_shared_overrun) {
  RowState state = attended(row);
  __shared__ float sums_smem[2][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  sums_smem[warp + 1][lane] = state.row_sum;  // should be sums_smem[warp]
  __syncthreads();
  state.row_sum = sums_smem[warp + 1][lane];
  if (row.inside) store_row(row.O, state);
}
