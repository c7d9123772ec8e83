// Fault: the guard of the store is one row too strict, so the last row of every head is never written.
#include "faulty/attend_row.cuh"

ROW_KERNEL(unwritten_output) {
  if (row.index < row.seq_len - 1) store_row(row.O, attended(row));
}
