// Mistake: under a causal mask row i sees key i + 1.
#include "faulty/attend_row.cuh"

ROW_KERNEL(mask_off_by_one) {
  if (row.causal) row.keys = min(row.index + 2, row.seq_len);
  store_row(row.O, attended(row));
}
