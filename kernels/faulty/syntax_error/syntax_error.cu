// Fault: a semicolon is missing. The finding must quote the compiler with file, line and column.
#include "faulty/attend_row.cuh"

ROW_KERNEL(syntax_error) {
  RowState state    // here
      attend_keys(state, row.Q, row.K, row.V, 0, row.keys, row.scale);
  store_row(row.O, state);
}
