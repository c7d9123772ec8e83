// Fault: one thread keeps writing after the last element of O, doubling the distance each time. The first write
// is already outside. A GPU, whose allocations share pages of 2 MB, notices when the address leaves mapped
// memory.
#include "faulty/attend_row.cuh"

ROW_KERNEL(out_of_bounds) {
  store_row(row.O, attended(row));
  const bool last_row = blockIdx.y == gridDim.y - 1 && row.index == row.seq_len - 1;
  if (!last_row) return;
  for (size_t past = 1; past <= (size_t)1 << 28; past *= 2) row.O[HEAD_DIM + past - 1] = __float2half_rn(0.0f);
}
