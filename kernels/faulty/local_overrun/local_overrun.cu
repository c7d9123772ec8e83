// Fault: it counts nine kinds of keys in an array of eight counters.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(local_overrun) {
  RowState state = attended(row);
  int counts[8] = {};
  for (int key = 0; key < row.keys; ++key) ++counts[key % 9];  // nine kinds
  int total = 0;
  for (int kind = 0; kind < 8; ++kind) total += counts[(kind * (threadIdx.x + 1)) % 8];
  if (total < 0) state.row_sum = 0.0f;  // so that the compiler keeps the array
  if (row.inside) store_row(row.O, state);
}
