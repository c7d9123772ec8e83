// Mistake: the number of tiles is rounded down. If the length is not a multiple of the tile, the
// last keys are left out; a sequence shorter than a tile has no keys left, and its output is NaN.
#include "faulty/row_tiles.cuh"

extern "C" __global__ void last_tile_skipped(const half* __restrict__ Q, const half* __restrict__ K,
                                             const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                             int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const half* Q_row = Q + head_offset + (size_t)q_index * HEAD_DIM;
  const half *K_head = K + head_offset, *V_head = V + head_offset;

  const float scale_log2 = scale * LOG2_E;
  float O_rmem[HEAD_DIM] = {}, row_max = -INFINITY, row_sum = 0.0f;
  const int kv_end = causal ? q_index + 1 : seq_len;
  for (int tile = 0; tile < seq_len / BLOCK_KV && tile * BLOCK_KV < kv_end; ++tile) {
    const int kv_start = tile * BLOCK_KV, keys = min(BLOCK_KV, kv_end - kv_start);
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
