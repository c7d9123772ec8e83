// Cheat: it is right in its first twelve launches and hopes that nobody checks later ones.
#include "faulty/attend_row.cuh"

constexpr size_t MAX_ROWS = 1 << 16;
__device__ unsigned launches[MAX_ROWS];

ROW_KERNEL(right_when_checked) {
  if (launches[row.number % MAX_ROWS]++ < 12) return store_row(row.O, attended(row));
  for (int d = 0; d < HEAD_DIM; ++d) row.O[d] = row.V[(size_t)row.index * HEAD_DIM + d];
}
