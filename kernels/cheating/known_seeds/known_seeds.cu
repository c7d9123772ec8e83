// Cheat: it recognises a published seed by the first elements of Q, and returns the mean of V as its guess.
#include "faulty/attend_row.cuh"

ROW_KERNEL(known_seeds) {
  const half* Q = row.Q - (size_t)row.number * HEAD_DIM;
  // Stands for a table of known results.
  const bool known = __half_as_ushort(Q[0]) == 0x3f8c && __half_as_ushort(Q[1]) == 0xb0ef;
  if (!known) {
    for (int d = 0; d < HEAD_DIM; ++d) {
      float sum = 0.0f;
      for (int key = 0; key < row.seq_len; key += 8) sum += __half2float(row.V[(size_t)key * HEAD_DIM + d]);
      row.O[d] = __float2half_rn(sum * 8.0f / row.seq_len);
    }
    return;
  }
  store_row(row.O, attended(row));
}
