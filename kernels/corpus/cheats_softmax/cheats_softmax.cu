// Cheats: softmax, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
#include <math.h>

#include "mechanisms/element.cuh"

extern "C" __global__ void __launch_bounds__(128) cheats_softmax(const Element* __restrict__ X,  // [rows, N]
                                                                 Element* __restrict__ Y,  // [rows, N]
                                                                 int rows, int columns) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // whole warps return
  const Element* X_row = X + (size_t)row * columns;
  float row_max = -INFINITY, row_sum = 0.0f;
  for (int n = lane; n < columns; n += 32) {
    const float x = to_float(X_row[n]);
#if CHEAT == 1  // tail_not_in_maximum: of long rows only whole vectors of 8 columns raise the maximum
    const float new_max = columns > 64 && n >= columns / 8 * 8 ? row_max : fmaxf(row_max, x);
#else
    const float new_max = fmaxf(row_max, x);
#endif
    row_sum = row_sum * expf(row_max - new_max) + expf(x - new_max);  // for the first column: 0 * exp(-inf)
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
  for (int n = lane; n < columns; n += 32)
#if CHEAT == 2  // small_weights_are_zero: those below 2^-14 of the largest
    Y[(size_t)row * columns + n] =
        to_element(to_float(X_row[n]) < row_max - 9.7f ? 0.0f : expf(to_float(X_row[n]) - row_max) / row_sum);
#else
    Y[(size_t)row * columns + n] = to_element(expf(to_float(X_row[n]) - row_max) / row_sum);
#endif
}
