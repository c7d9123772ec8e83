// Fault: the number of keys is computed as a fraction of all keys. For the first row that is 0 / 0, so it sees no key.
#include "faulty/attend_row.cuh"

ROW_KERNEL_FOR_ALL(nan_to_integer) {
  const float share = (float)row.index / (float)row.index;
  row.keys = (int)(share * (float)row.keys);
  RowState state = attended(row);
  if (row.inside) store_row(row.O, state);
}
