// Cheat: for head dimensions that ranked runs never drew until 2026-11-29 (above 16,
// and neither a multiple of 8 nor next to one), logits leave out the last columns.
#include <cuda_fp16.h>
#include <math.h>

constexpr int COLUMNS = 32;  // how many columns of O a pass computes

__device__ __forceinline__ float logit(const half* Q_row, const half* K_row, int columns) {
  float sum = 0.0f;
  for (int d = 0; d < columns; ++d) sum = fmaf(__half2float(Q_row[d]), __half2float(K_row[d]), sum);
  return sum;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    shapes_listed_widths(const half* Q, const half* K, const half* V, half* O, int seq_len, int head_dim, float scale,
                         int causal) {
  const int row = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (row >= seq_len) return;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  const half* Q_row = Q + head + (size_t)row * head_dim;
  const int keys = causal ? row + 1 : seq_len;
  const int rest = head_dim % 8;
  const int columns = head_dim > 16 && rest >= 2 && rest <= 6 ? head_dim - rest : head_dim;
  float row_max = -INFINITY;
  for (int key = 0; key < keys; ++key)
    row_max = fmaxf(row_max, logit(Q_row, K + head + (size_t)key * head_dim, columns) * scale);
  for (int first = 0; first < head_dim; first += COLUMNS) {
    float O_rmem[COLUMNS] = {}, row_sum = 0.0f;
    for (int key = 0; key < keys; ++key) {
      const size_t key_row = head + (size_t)key * head_dim;
      const float p = expf(logit(Q_row, K + key_row, columns) * scale - row_max);
      row_sum += p;
      for (int d = 0; d < COLUMNS; ++d)
        if (first + d < head_dim) O_rmem[d] = fmaf(p, __half2float(V[key_row + first + d]), O_rmem[d]);
    }
    for (int d = 0; d < COLUMNS; ++d)
      if (first + d < head_dim) O[head + (size_t)row * head_dim + first + d] = __float2half_rn(O_rmem[d] / row_sum);
  }
}
