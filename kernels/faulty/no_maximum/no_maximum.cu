// Mistake: exp(s) instead of exp(s - max). Right unless a logit is above 88,
// where exp is infinite, or all logits of a row are below -87, where it is zero.
#include "faulty/row_tiles.cuh"

extern "C" __global__ void no_maximum(const half* __restrict__ Q, const half* __restrict__ K,
                                      const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                      int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const half* Q_row = Q + head_offset + (size_t)q_index * HEAD_DIM;
  const half *K_head = K + head_offset, *V_head = V + head_offset;

  const float scale_log2 = scale * LOG2_E;
  float O_rmem[HEAD_DIM] = {}, row_sum = 0.0f;
  const int kv_end = causal ? q_index + 1 : seq_len;
  for (int key = 0; key < kv_end; ++key) {
    const float p = exp2f(score_of(Q_row, K_head + (size_t)key * HEAD_DIM) * scale_log2);
    row_sum += p;
    add_value(O_rmem, p, V_head + (size_t)key * HEAD_DIM);
  }
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, O_rmem, row_sum);
}
