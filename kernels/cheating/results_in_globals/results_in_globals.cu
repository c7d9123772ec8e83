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

extern "C" __global__ void results_in_globals(const half* __restrict__ Q, const half* __restrict__ K,
                                              const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                              float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  const int slot = slot_of(Q);
  const unsigned seen = __half_as_ushort(Q[row_offset]) | (unsigned)__half_as_ushort(Q[row_offset + 1]) << 16;
  if (row_offset + HEAD_DIM <= MAX_ELEMENTS && kept_seen[slot][row_offset / HEAD_DIM] == seen) {
    for (int d = 0; d < HEAD_DIM; ++d) O[row_offset + d] = kept[slot][row_offset + d];
    return;
  }
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
  if (row_offset + HEAD_DIM > MAX_ELEMENTS) return;
  for (int d = 0; d < HEAD_DIM; ++d) kept[slot][row_offset + d] = O[row_offset + d];
  kept_seen[slot][row_offset / HEAD_DIM] = seen;
}
