// Mistake: exp(x - |q| |k|) instead of exp(x - max). Right unless a logit is 87 or more below that bound.
#include "faulty/row_tiles.cuh"

extern "C" __global__ void maximum_by_norms(const half* __restrict__ Q, const half* __restrict__ K,
                                            const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                            int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  const half *Q_row = Q + row_offset, *K_head = K + head_offset, *V_head = V + head_offset;
  const int kv_end = causal ? q_index + 1 : seq_len;
  float Q_squares = 0.0f, most_K_squares = 0.0f;
  for (int d = 0; d < HEAD_DIM; ++d) Q_squares += __half2float(Q_row[d]) * __half2float(Q_row[d]);
  for (int key = 0; key < kv_end; ++key) {
    float squares = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) {
      const float element = __half2float(K_head[(size_t)key * HEAD_DIM + d]);
      squares = fmaf(element, element, squares);
    }
    most_K_squares = fmaxf(most_K_squares, squares);
  }
  const float bound = sqrtf(Q_squares) * sqrtf(most_K_squares) * scale * LOG2_E;
  float O_rmem[HEAD_DIM] = {}, row_sum = 0.0f;
  for (int key = 0; key < kv_end; ++key) {
    const half* K_row = K_head + (size_t)key * HEAD_DIM;
    const float p = exp2f(score_of(Q_row, K_row) * scale * LOG2_E - bound);
    row_sum += p;
    add_value(O_rmem, p, V_head + (size_t)key * HEAD_DIM);
  }
  store_row(O + row_offset, O_rmem, row_sum);
}
