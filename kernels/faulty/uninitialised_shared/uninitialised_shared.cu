// Fault: the stage of the next tile is read before it is filled.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(uninitialised_shared) {
  RowState state;
  __shared__ float stages[2][64];
  stages[0][threadIdx.x] = row.scale;
  __syncthreads();
  attend_keys(state, row.Q, row.K, row.V, 0, row.keys, stages[0][threadIdx.x ^ 1]);
  if (stages[1][threadIdx.x ^ 1] == 12345.0f) state.row_sum = 0.0f;  // not yet written
  __syncthreads();
  stages[1][threadIdx.x] = state.row_max;
  if (row.inside) store_row(row.O, state);
}
