// Mistake: the row sum is a half. Adding 1 to 2048 does not change it, so that rows of many
// equal weights are divided by too little. For a few hundred keys the tolerance hides the error.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(fp16_sums) {
  float O_rmem[HEAD_DIM] = {}, row_max = -INFINITY;
  half row_sum_half = __float2half_rn(0.0f);
  for (int kv_start = 0; kv_start < row.keys; kv_start += BLOCK_KV) {
    const int keys = min(BLOCK_KV, row.keys - kv_start);
    float S_rmem[BLOCK_KV];
    const float tile_max = score_tile(S_rmem, row, kv_start, keys);
    const float raised = fmaxf(row_max, tile_max), alpha = exp2f(row_max - raised);
    row_max = raised;
    row_sum_half = __float2half_rn(__half2float(row_sum_half) * alpha);
    rescale(O_rmem, alpha);
    for (int key = 0; key < keys; ++key) {
      const float p = exp2f(S_rmem[key] - row_max);
      row_sum_half = __hadd(row_sum_half, __float2half_rn(p));
      add_value(O_rmem, p, row.V + (size_t)(kv_start + key) * HEAD_DIM);
    }
  }
  store_row(row.O, O_rmem, __half2float(row_sum_half));
}
