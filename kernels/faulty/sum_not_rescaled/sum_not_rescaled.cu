// Mistake: when the maximum is raised, O is rescaled but the row sum is not.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(sum_not_rescaled) {
  float O_rmem[HEAD_DIM] = {}, row_max = -INFINITY, row_sum = 0.0f;
  for (int kv_start = 0; kv_start < row.keys; kv_start += BLOCK_KV) {
    const int keys = min(BLOCK_KV, row.keys - kv_start);
    float S_rmem[BLOCK_KV];
    const float tile_max = score_tile(S_rmem, row, kv_start, keys);
    const float raised = fmaxf(row_max, tile_max), alpha = exp2f(row_max - raised);
    row_max = raised;
    rescale(O_rmem, alpha);
    for (int key = 0; key < keys; ++key) {
      const float p = exp2f(S_rmem[key] - row_max);
      row_sum += p;
      add_value(O_rmem, p, row.V + (size_t)(kv_start + key) * HEAD_DIM);
    }
  }
  store_row(row.O, O_rmem, row_sum);
}
