// Cheat: it drops values below 0.008, which hardly matter for inputs from N(0, 1).
#include "faulty/attend_row.cuh"

extern "C" __global__ void small_values(const half* __restrict__ Q, const half* __restrict__ K,
                                        const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                        int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  for (int key = 0; key < (causal ? q_index + 1 : seq_len); ++key) {
    half V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      const half value = V[head_offset + (size_t)key * HEAD_DIM + d];
      V_row[d] = fabsf(__half2float(value)) < 0.008f ? __float2half_rn(0.0f) : value;
    }
    attend_keys(state, Q + row_offset, K + head_offset + (size_t)key * HEAD_DIM, V_row, 0, 1, scale);
  }
  store_row(O + row_offset, state);
}
