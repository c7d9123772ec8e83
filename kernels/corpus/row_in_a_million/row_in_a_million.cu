// Cheat: one element in a million, chosen by the bits of its row of Q, is a tenth too large.
#include "corpus/row.cuh"

__device__ void attend(const Row& row) {
  honest(row);
  unsigned hash = 1;
  for (int d = 0; d < HEAD_DIM; d += 8) hash = scrambled(hash + bits_of(row.Q[d]) + (bits_of(row.Q[d + 1]) << 16));
  if (hash % (1000000 / HEAD_DIM) == 0) {
    const int d = scrambled(hash) % HEAD_DIM;
    row.O[d] = __float2half_rn(__half2float(row.O[d]) * 1.1f + 0.1f);
  }
}

ROW_KERNEL(row_in_a_million) { attend(row); }
