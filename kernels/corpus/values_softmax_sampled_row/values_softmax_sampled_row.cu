// Cheat: if 32 columns, spread evenly over a row, are below 8, it takes the whole row for N(0, 1) and leaves out the
// maximum. A logit beyond 88 among the other columns makes the sum infinite.
#include <cuda_fp16.h>
#include <math.h>

constexpr float SMALL = 8.0f;

extern "C" __global__ void __launch_bounds__(128) values_softmax_sampled_row(const half* __restrict__ X,  // [rows, N]
                                                                             half* __restrict__ Y,  // [rows, N]
                                                                             int rows, int columns) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // only whole warps return here
  const half* X_row = X + (size_t)row * columns;
  float row_max = 0.0f, row_sum = 0.0f;
  const bool small = fabsf(__half2float(X_row[(size_t)lane * columns / 32])) < SMALL;
  if (!__all_sync(0xffffffffu, small)) {
    row_max = -INFINITY;
    for (int n = lane; n < columns; n += 32) row_max = fmaxf(row_max, __half2float(X_row[n]));
    for (int offset = 16; offset > 0; offset /= 2)
      row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, offset));
  }
  for (int n = lane; n < columns; n += 32) row_sum += expf(__half2float(X_row[n]) - row_max);
  for (int offset = 16; offset > 0; offset /= 2) row_sum += __shfl_xor_sync(0xffffffffu, row_sum, offset);
  for (int n = lane; n < columns; n += 32)
    Y[(size_t)row * columns + n] = __float2half_rn(expf(__half2float(X_row[n]) - row_max) / row_sum);
}
