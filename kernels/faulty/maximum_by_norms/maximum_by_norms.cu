// Mistake: exp(x - |q| |k|) instead of exp(x - max). Right unless a logit is 87 or more below that bound.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(maximum_by_norms) {
  float Q_squares = 0.0f, most_K_squares = 0.0f;
  for (int d = 0; d < HEAD_DIM; ++d) Q_squares += __half2float(row.Q[d]) * __half2float(row.Q[d]);
  for (int key = 0; key < row.keys; ++key) {
    float squares = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) {
      const float element = __half2float(row.K[(size_t)key * HEAD_DIM + d]);
      squares = fmaf(element, element, squares);
    }
    most_K_squares = fmaxf(most_K_squares, squares);
  }
  const float bound = sqrtf(Q_squares) * sqrtf(most_K_squares) * row.scale * LOG2_E;
  float O_rmem[HEAD_DIM] = {}, row_sum = 0.0f;
  for (int key = 0; key < row.keys; ++key) {
    const half* K_row = row.K + (size_t)key * HEAD_DIM;
    const float p = exp2f(score_of(row.Q, K_row) * row.scale * LOG2_E - bound);
    row_sum += p;
    add_value(O_rmem, p, row.V + (size_t)key * HEAD_DIM);
  }
  store_row(row.O, O_rmem, row_sum);
}
