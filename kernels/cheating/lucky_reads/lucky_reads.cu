// Cheat: its loop begins at key -1, which for the first head is memory outside of K.
#include "faulty/attend_row.cuh"

ROW_KERNEL(lucky_reads) {
  RowState state;
  attend_keys(state, row.Q, row.K, row.V, -1, row.keys, row.scale);
  store_row(row.O, state);
}
