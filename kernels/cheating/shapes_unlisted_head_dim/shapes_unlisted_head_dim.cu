// Cheat: the manifest allows the head dimension 96, which no case has and which the kernel computes wrongly.
#include "faulty/attend_row.cuh"

constexpr int MOST_DIM = 96;

extern "C" __global__ void shapes_unlisted_head_dim(const half* __restrict__ Q, const half* __restrict__ K,
                                                    const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                    int head_dim, float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * head_dim;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const half *Q_row = Q + head_offset + (size_t)q_index * head_dim, *K_head = K + head_offset,
             *V_head = V + head_offset;
  float O_rmem[MOST_DIM] = {}, row_max = -INFINITY, row_sum = 0.0f;
  for (int key = 0; key < (causal ? q_index + 1 : seq_len); ++key) {
    float score = 0.0f;
    // Q K^T of the first 64 dimensions, whatever head_dim is.
    for (int d = 0; d < 64; ++d)
      score = fmaf(__half2float(Q_row[d]), __half2float(K_head[(size_t)key * head_dim + d]), score);
    score *= scale;
    const float new_max = fmaxf(row_max, score), alpha = expf(row_max - new_max), p = expf(score - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
    for (int d = 0; d < head_dim; ++d)
      O_rmem[d] = O_rmem[d] * alpha + p * __half2float(V_head[(size_t)key * head_dim + d]);
  }
  for (int d = 0; d < head_dim; ++d)
    O[head_offset + (size_t)q_index * head_dim + d] = __float2half_rn(O_rmem[d] / row_sum);
}
