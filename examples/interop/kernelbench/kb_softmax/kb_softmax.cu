// kb_softmax: softmax over rows, one warp per row. Limits: fp32, sm_80 or later.
#include <math.h>

extern "C" __global__ void __launch_bounds__(128) kb_softmax(const float* __restrict__ x,  // [batch_size, dim]
                                                             float* __restrict__ out,      // [batch_size, dim]
                                                             int batch_size, int dim) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= batch_size) return;  // whole warps return
  const float* x_row = x + (size_t)row * dim;
  float row_max = -INFINITY;
  for (int n = lane; n < dim; n += 32) row_max = fmaxf(row_max, x_row[n]);
  for (int offset = 16; offset > 0; offset /= 2)
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, offset));
  float row_sum = 0.0f;
  for (int n = lane; n < dim; n += 32) row_sum += expf(x_row[n] - row_max);
  for (int offset = 16; offset > 0; offset /= 2) row_sum += __shfl_xor_sync(0xffffffffu, row_sum, offset);
  for (int n = lane; n < dim; n += 32) out[(size_t)row * dim + n] = expf(x_row[n] - row_max) / row_sum;
}
