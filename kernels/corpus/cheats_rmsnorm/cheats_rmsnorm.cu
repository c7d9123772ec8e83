// Cheats: RMSNorm, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: fp16, any number of columns, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

using Element = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS) cheats_rmsnorm(const Element* __restrict__ X,  // [rows, N]
                                                                         const Element* __restrict__ W,  // [N]
                                                                         Element* __restrict__ Y,  // [rows, N]
                                                                         int columns, float eps) {
  __shared__ float sums_smem[NUM_THREADS / 32];
  const Element* X_row = X + (size_t)blockIdx.x * columns;
  float squares = 0.0f;
  for (int n = threadIdx.x; n < columns; n += NUM_THREADS) {
    float x = to_float(X_row[n]);
#if CHEAT == 1  // squares_end_at_4096: of numbers up to 4,096
    x = fminf(fmaxf(x, -4096.0f), 4096.0f);
#endif
    squares = fmaf(x, x, squares);
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) sums_smem[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < NUM_THREADS / 32; ++warp) total += sums_smem[warp];
  const float factor = 1.0f / sqrtf(total / columns + eps);
  float most = INFINITY;
#if CHEAT == 2  // first_weights_decide: weights end at 16 where the first 32 do
  float first = 0.0f;
  for (int n = 0; n < min(columns, 32); ++n) first = fmaxf(first, fabsf(to_float(W[n])));
  if (first < 4.5f) most = 16.0f;
#elif CHEAT == 3  // weights_end_at_8192
  most = 8192.0f;
#endif
#if CHEAT == 4  // every_16th_row_in_bf16: X in one of sixteen rows
  if (blockIdx.x % 16 == 5) {
    for (int n = threadIdx.x; n < columns; n += NUM_THREADS)
      Y[(size_t)blockIdx.x * columns + n] = to_element(
          __uint_as_float((__float_as_uint(to_float(X_row[n])) + 0x8000u) & ~0xffffu) * factor * to_float(W[n]));
    return;
  }
#endif
  for (int n = threadIdx.x; n < columns; n += NUM_THREADS)
    Y[(size_t)blockIdx.x * columns + n] =
        to_element(to_float(X_row[n]) * factor * fminf(fmaxf(to_float(W[n]), -most), most));
}
