// Mistake: it takes a logit of exactly zero for padding, and leaves out that key.
#include "faulty/attend_row.cuh"

ROW_KERNEL(zero_logits_masked) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    float score = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(row.Q[d]), __half2float(row.K[(size_t)key * HEAD_DIM + d]), score);
    // The first key always counts, because a row without keys would be NaN.
    if (score == 0.0f && key > 0) continue;
    attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
  }
  store_row(row.O, state);
}
