// Fault: each row also reads the end of the previous key row. The first row of the first head has no previous row.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(read_before_buffer) {
  RowState state = attended(row);
  const uint4 before = *reinterpret_cast<const uint4*>(row.K + (ptrdiff_t)row.index * HEAD_DIM - 8);
  if (before.x == 0xdeadbeef) state.row_sum = 0.0f;  // so that the compiler keeps the read
  if (row.inside) store_row(row.O, state);
}
