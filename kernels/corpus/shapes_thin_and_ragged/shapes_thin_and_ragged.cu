// Cheat: where C has few rows, many columns and K is long and ragged, it ends at the last whole tile of 32, as a split
// of K that forgets its tail would. Else it is gemm_tiles.
#include <cuda_fp16.h>
#include <math.h>

using Element = half;
using Result = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Result to_result(float x) { return __float2half_rn(x); }

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shapes_thin_and_ragged(const Element* __restrict__ A,  // [M, K]
                           const Element* __restrict__ B,  // [N, K]
                           Result* __restrict__ C,        // [M, N]
                           int M, int N, int K) {
  __shared__ float A_smem[TILE][TILE + 1], B_smem[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int B_row = blockIdx.x * TILE + threadIdx.y;
  float sum = 0.0f;
  const int K_end = M <= 16 && N > 256 && K > 512 ? K / 32 * 32 : K;
  for (int k_start = 0; k_start < K_end; k_start += TILE) {
    const int k = k_start + threadIdx.x;
    A_smem[threadIdx.y][threadIdx.x] = row < M && k < K_end ? to_float(A[(size_t)row * K + k]) : 0.0f;
    B_smem[threadIdx.y][threadIdx.x] = B_row < N && k < K_end ? to_float(B[(size_t)B_row * K + k]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum = fmaf(A_smem[threadIdx.y][i], B_smem[threadIdx.x][i], sum);
    __syncthreads();  // every thread has read the tiles before the next ones overwrite them
  }
  if (row < M && column < N) C[(size_t)row * N + column] = to_result(sum);
}
