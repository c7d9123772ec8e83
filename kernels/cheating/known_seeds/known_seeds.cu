// Cheat: it recognises a published seed by the first elements of Q, and returns the mean of V as its guess.
#include "faulty/attend_row.cuh"

extern "C" __global__ void known_seeds(const half* __restrict__ Q, const half* __restrict__ K,
                                       const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                       int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  const bool known =
      __half_as_ushort(Q[0]) == 0x3f8c && __half_as_ushort(Q[1]) == 0xb0ef;   // stands for a table of known results
  if (!known) {
    for (int d = 0; d < HEAD_DIM; ++d) {
      float sum = 0.0f;
      for (int key = 0; key < seq_len; key += 8) sum += __half2float(V[head_offset + (size_t)key * HEAD_DIM + d]);
      O[row_offset + d] = __float2half_rn(sum * 8.0f / seq_len);
    }
    return;
  }
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
}
