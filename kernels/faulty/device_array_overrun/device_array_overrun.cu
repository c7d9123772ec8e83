// Fault: it writes the sums of all rows to an array that has room for 256.
#include "faulty/attend_row.cuh"

__device__ volatile float row_sums[256];

ROW_KERNEL_FOR_ALL(device_array_overrun) {
  RowState state = attended(row);
  row_sums[row.number] = state.row_sum;
  state.row_sum = row_sums[row.number];
  if (row.inside) store_row(row.O, state);
}
