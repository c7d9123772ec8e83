// Fault: the lower half of a warp shuffles with the upper half's mask.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(wrong_membermask) {
  RowState state = attended(row);
  if (threadIdx.x % 32 < 16) {
    const float other = __shfl_xor_sync(0xffff0000u, state.row_max, 1);  // should be 0x0000ffffu
    if (other == 12345.0f) state.row_sum = 0.0f;
  }
  if (row.inside) store_row(row.O, state);
}
