// Fault: every thread waits for a flag that nobody sets.
#include "faulty/attend_row.cuh"

ROW_KERNEL(endless_loop) {
  __shared__ volatile int tile_ready;
  if (threadIdx.x == 0) tile_ready = 0;
  __syncthreads();
  while (tile_ready == 0) {}
  store_row(row.O, attended(row));
}
