// Fault: the mask of a full chunk is (1u << 32) - 1. On a GPU that works, because PTX defines a shift by 32 as 0.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(shift_by_width) {
  RowState state;
  for (int first = 0; first < row.keys; first += 32) {
    const int count = min(row.keys - first, 32);
    const unsigned visible = (1u << count) - 1;
    for (int key = 0; key < 32; ++key)
      if (visible >> key & 1) attend_keys(state, row.Q, row.K, row.V, first + key, first + key + 1, row.scale);
  }
  if (row.inside) store_row(row.O, state);
}
