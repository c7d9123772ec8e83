// Mistake: K's heads are indexed as [H, B] instead of [B, H]. With one batch or one head the two are the same.
#include "faulty/row_tiles.cuh"

extern "C" __global__ void wrong_heads_keys(const half* __restrict__ Q, const half* __restrict__ K,
                                            const half* __restrict__ V, half* __restrict__ O, int batches, int heads,
                                            int seq_len, float scale, int causal) {
  const int batch = blockIdx.y / heads, head = blockIdx.y % heads;
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const half* Q_row = Q + head_offset + (size_t)q_index * HEAD_DIM;
  const half *K_head = K + (size_t)(head * batches + batch) * seq_len * HEAD_DIM, *V_head = V + head_offset;

  const float scale_log2 = scale * LOG2_E;
  float O_rmem[HEAD_DIM] = {}, row_max = -INFINITY, row_sum = 0.0f;
  const int kv_end = causal ? q_index + 1 : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    const int keys = min(BLOCK_KV, kv_end - kv_start);
    float S_rmem[BLOCK_KV], tile_max = -INFINITY;
    for (int key = 0; key < keys; ++key) {
      S_rmem[key] = score_of(Q_row, K_head + (size_t)(kv_start + key) * HEAD_DIM) * scale_log2;
      tile_max = fmaxf(tile_max, S_rmem[key]);
    }
    const float raised = fmaxf(row_max, tile_max), alpha = exp2f(row_max - raised);
    row_max = raised;
    row_sum *= alpha;
    rescale(O_rmem, alpha);
    for (int key = 0; key < keys; ++key) {
      const float p = exp2f(S_rmem[key] - row_max);
      row_sum += p;
      add_value(O_rmem, p, V_head + (size_t)(kv_start + key) * HEAD_DIM);
    }
  }
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, O_rmem, row_sum);
}
