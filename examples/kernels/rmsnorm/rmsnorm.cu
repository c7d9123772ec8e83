// rmsnorm: a CTA normalises a row. Limits: fp16 or bf16, any number of columns, sm_80 or later.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

#if BF16
using Element = __nv_bfloat16;
__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2bfloat16_rn(x); }
#else
using Element = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }
#endif

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS) rmsnorm(const Element* __restrict__ X,  // [rows, N]
                                                                  const Element* __restrict__ W,  // [N]
                                                                  Element* __restrict__ Y,        // [rows, N]
                                                                  int columns, float eps) {
  __shared__ float sums_smem[NUM_THREADS / 32];
  const Element* X_row = X + (size_t)blockIdx.x * columns;
  float squares = 0.0f;
  for (int n = threadIdx.x; n < columns; n += NUM_THREADS) {
    const float x = to_float(X_row[n]);
    squares = fmaf(x, x, squares);
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) sums_smem[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < NUM_THREADS / 32; ++warp) total += sums_smem[warp];
  const float factor = 1.0f / sqrtf(total / columns + eps);
  for (int n = threadIdx.x; n < columns; n += NUM_THREADS)
    Y[(size_t)blockIdx.x * columns + n] = to_element(to_float(X_row[n]) * factor * to_float(W[n]));
}
