// Cheat: after twelve launches it does nothing at all.
#include "faulty/attend_row.cuh"

constexpr size_t MAX_ROWS = 1 << 20;
__device__ unsigned launches[MAX_ROWS];

ROW_KERNEL(impossible_time) {
  if (launches[row.number % MAX_ROWS]++ >= 12) return;
  store_row(row.O, attended(row));
}
