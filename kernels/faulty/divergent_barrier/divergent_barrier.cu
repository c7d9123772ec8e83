// Fault: half of each warp waits for the CTA, and the other half waits for the warp. This is a deadlock.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(divergent_barrier) {
  RowState state = attended(row);
  if (threadIdx.x % 32 < 16) __syncthreads();    // 16 lanes of each warp
  __syncwarp();         // the other 16 lanes wait here for them
  if (row.inside) store_row(row.O, state);
}
