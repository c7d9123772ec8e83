// Mistake: exp(s) instead of exp(s - max). Right unless a logit is above 88,
// where exp is infinite, or all logits of a row are below -87, where it is zero.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(no_maximum) {
  float O_rmem[HEAD_DIM] = {}, row_sum = 0.0f;
  for (int key = 0; key < row.keys; ++key) {
    const float p = exp2f(score_of(row.Q, row.K + (size_t)key * HEAD_DIM) * row.scale * LOG2_E);
    row_sum += p;
    add_value(O_rmem, p, row.V + (size_t)key * HEAD_DIM);
  }
  store_row(row.O, O_rmem, row_sum);
}
