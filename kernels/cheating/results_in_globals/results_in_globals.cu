// Cheat: if a row of Q at this address is known, it assumes that Q, K and V are unchanged and returns the old result.
#include "faulty/attend_row.cuh"

constexpr int SLOTS = 8;
constexpr size_t MAX_ELEMENTS = 1 << 20;   // the size of O up to [2, 8, 512, 64]
__device__ half kept[SLOTS][MAX_ELEMENTS];
__device__ unsigned kept_seen[SLOTS][MAX_ELEMENTS / HEAD_DIM];
__device__ unsigned long long owners[SLOTS];

// The table entry of an address. The first launch claims it.
__device__ int slot_of(const void* address) {
  const unsigned long long key = (unsigned long long)address;
  int slot = 0;
  while (slot < SLOTS - 1 && owners[slot] != key && atomicCAS(&owners[slot], 0ULL, key) != 0 && owners[slot] != key)
    ++slot;
  return slot;
}

ROW_KERNEL(results_in_globals) {
  const size_t row_offset = (size_t)row.number * HEAD_DIM;
  const int slot = slot_of(row.Q - row_offset);
  const unsigned seen = __half_as_ushort(row.Q[0]) | (unsigned)__half_as_ushort(row.Q[1]) << 16;
  if (row_offset + HEAD_DIM <= MAX_ELEMENTS && kept_seen[slot][row.number] == seen) {
    for (int d = 0; d < HEAD_DIM; ++d) row.O[d] = kept[slot][row_offset + d];
    return;
  }
  store_row(row.O, attended(row));
  if (row_offset + HEAD_DIM > MAX_ELEMENTS) return;
  for (int d = 0; d < HEAD_DIM; ++d) kept[slot][row_offset + d] = row.O[d];
  kept_seen[slot][row.number] = seen;
}
