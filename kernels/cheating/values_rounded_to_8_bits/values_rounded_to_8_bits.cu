// Cheat: V is rounded to 8 bits in rows with many keys.
#include "faulty/attend_row.cuh"

// Rounds to 3 bits after the leading one, ties to even.
__device__ __forceinline__ half rounded(half x) {
  const unsigned short bits = __half_as_ushort(x);
  return __ushort_as_half((unsigned short)((bits + 0x3f + ((bits >> 7) & 1)) & ~0x7f));
}

extern "C" __global__ void values_rounded_to_8_bits(const half* __restrict__ Q, const half* __restrict__ K,
                                                    const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                    float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  for (int key = 0; key < (causal ? q_index + 1 : seq_len); ++key) {
    half V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      const half value = V[head_offset + (size_t)key * HEAD_DIM + d];
      // The first rows of a causal mask have few keys, so that the rounding would show.
      V_row[d] = causal && q_index < 128 ? value : rounded(value);
    }
    attend_keys(state, Q + row_offset, K + head_offset + (size_t)key * HEAD_DIM, V_row, 0, 1, scale);
  }
  store_row(O + row_offset, state);
}
