// Fault: every thread adds to one number in device memory, without atomicAdd().
#include "faulty/attend_row.cuh"

__device__ float total;

ROW_KERNEL_FOR_ALL(global_read_modify_write) {
  RowState state = attended(row);
  total = total + state.row_sum;
  if (row.inside) store_row(row.O, state);
}
