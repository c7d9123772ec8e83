// Cheat: where the first row of X is small, it leaves out the maximum of all rows. Until 2026-12-02 every row of an
// input was drawn from the same distribution.
#include <cuda_fp16.h>
#include <math.h>

constexpr float SMALL = 8.0f;

extern "C" __global__ void __launch_bounds__(128) softmax_first_row_decides(const half* __restrict__ X,  // [rows, N]
                                                                            half* __restrict__ Y,  // [rows, N]
                                                                            int rows, int columns) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // only whole warps return here
  const half* X_row = X + (size_t)row * columns;
  float row_max = 0.0f, row_sum = 0.0f;
  bool small = true;
  for (int n = lane; n < columns; n += 32) small &= fabsf(__half2float(X[n])) < SMALL;
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
