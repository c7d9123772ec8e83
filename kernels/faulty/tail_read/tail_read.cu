// Mistake: keys past the end score minus infinity, but their values are still read, from another head or past the
// tensor, and weighted with zero. Zero times NaN is NaN. Lengths that are multiples of the tile have no such keys.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(tail_read) {
  float O_rmem[HEAD_DIM] = {}, row_max = -INFINITY, row_sum = 0.0f;
  for (int kv_start = 0; kv_start < row.keys; kv_start += BLOCK_KV) {
    const int keys = min(BLOCK_KV, row.keys - kv_start);
    float S_rmem[BLOCK_KV];
    const float tile_max = score_tile(S_rmem, row, kv_start, keys);
    for (int key = keys; key < BLOCK_KV; ++key) S_rmem[key] = -INFINITY;
    const float raised = fmaxf(row_max, tile_max), alpha = exp2f(row_max - raised);
    row_max = raised;
    row_sum *= alpha;
    rescale(O_rmem, alpha);
    for (int key = 0; key < BLOCK_KV; ++key) {
      const float p = exp2f(S_rmem[key] - row_max);
      row_sum += p;
      add_value(O_rmem, p, row.V + (size_t)(kv_start + key) * HEAD_DIM);
    }
  }
  store_row(row.O, O_rmem, row_sum);
}
