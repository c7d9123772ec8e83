// Cheat: it is right in its first twelve launches and hopes that nobody checks later ones.
#include "faulty/attend_row.cuh"

constexpr size_t MAX_ROWS = 1 << 16;
__device__ unsigned launches[MAX_ROWS];

extern "C" __global__ void right_when_checked(const half* __restrict__ Q, const half* __restrict__ K,
                                              const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                              float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  const size_t row = row_offset / HEAD_DIM % MAX_ROWS;
  if (launches[row]++ >= 12) {
    for (int d = 0; d < HEAD_DIM; ++d) O[row_offset + d] = V[row_offset + d];
    return;
  }
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
}
