// gemm_tiles: a CTA computes a tile of C, a thread computes an element. Limits: fp16 or
// bf16, or A and B in e4m3 (sm_89 or later) with C in fp16; any extents, sm_80 or later.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

#if E4M3
#include <cuda_fp8.h>
using Element = __nv_fp8_e4m3;
using Result = half;
__device__ __forceinline__ float to_float(Element x) { return float(x); }
__device__ __forceinline__ Result to_result(float x) { return __float2half_rn(x); }
#elif BF16
using Element = __nv_bfloat16;
using Result = Element;
__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ Result to_result(float x) { return __float2bfloat16_rn(x); }
#else
using Element = half;
using Result = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Result to_result(float x) { return __float2half_rn(x); }
#endif

extern "C" __global__ void __launch_bounds__(TILE* TILE) gemm_tiles(const Element* __restrict__ A,  // [M, K]
                                                                    const Element* __restrict__ B,  // [N, K]
                                                                    Result* __restrict__ C,        // [M, N]
                                                                    int M, int N, int K) {
  __shared__ float A_smem[TILE][TILE + 1], B_smem[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int B_row = blockIdx.x * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int k_start = 0; k_start < K; k_start += TILE) {
    const int k = k_start + threadIdx.x;
    A_smem[threadIdx.y][threadIdx.x] = row < M && k < K ? to_float(A[(size_t)row * K + k]) : 0.0f;
    B_smem[threadIdx.y][threadIdx.x] = B_row < N && k < K ? to_float(B[(size_t)B_row * K + k]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum = fmaf(A_smem[threadIdx.y][i], B_smem[threadIdx.x][i], sum);
    __syncthreads();  // every thread has read the tiles before the next ones overwrite them
  }
  if (row < M && column < N) C[(size_t)row * N + column] = to_result(sum);
}
