// Mistake: K and V are rounded to the 3 mantissa bits of e4m3, but not clamped to its range.
#include "faulty/changed_keys.cuh"

// Rounds to 3 bits after the leading bit, ties to even, with any exponent.
__device__ __forceinline__ half rounded(half x) {
  const unsigned short bits = __half_as_ushort(x);
  return __ushort_as_half((unsigned short)((bits + 0x3f + ((bits >> 7) & 1)) & ~0x7f));
}

extern "C" __global__ void rounded_to_e4m3(const half* __restrict__ Q, const half* __restrict__ K,
                                           const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                           int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  attend_changed(Q + row_offset, K + head_offset, V + head_offset, O + row_offset, causal ? q_index + 1 : seq_len,
                 scale, rounded);
}
