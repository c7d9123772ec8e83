// Mistake: it takes a logit of exactly zero for padding, and leaves out that key.
#include "faulty/attend_row.cuh"

extern "C" __global__ void zero_logits_masked(const half* __restrict__ Q, const half* __restrict__ K,
                                              const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                              float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  const half *K_head = K + head_offset, *V_head = V + head_offset;
  for (int key = 0; key < (causal ? q_index + 1 : seq_len); ++key) {
    float score = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(Q[row_offset + d]), __half2float(K_head[(size_t)key * HEAD_DIM + d]), score);
    // The first key always counts, because a row without keys would be NaN.
    if (score == 0.0f && key > 0) continue;
    attend_keys(state, Q + row_offset, K_head, V_head, key, key + 1, scale);
  }
  store_row(O + row_offset, state);
}
