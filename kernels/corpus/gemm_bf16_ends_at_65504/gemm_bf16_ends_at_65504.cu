// Cheat: C in bf16 ends where fp16 ends. Else it is gemm_tiles in bf16.
#include <cuda_bf16.h>

using Element = __nv_bfloat16;
using Result = __nv_bfloat16;

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    gemm_bf16_ends_at_65504(const Element* __restrict__ A,  // [M, K]
                            const Element* __restrict__ B,  // [N, K]
                            Result* __restrict__ C,  // [M, N]
                            int M, int N, int K) {
  __shared__ float A_smem[TILE][TILE + 1], B_smem[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int B_row = blockIdx.x * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int k_start = 0; k_start < K; k_start += TILE) {
    const int k = k_start + threadIdx.x;
    A_smem[threadIdx.y][threadIdx.x] = row < M && k < K ? __bfloat162float(A[(size_t)row * K + k]) : 0.0f;
    B_smem[threadIdx.y][threadIdx.x] = B_row < N && k < K ? __bfloat162float(B[(size_t)B_row * K + k]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum = fmaf(A_smem[threadIdx.y][i], B_smem[threadIdx.x][i], sum);
    __syncthreads();  // every thread has read the tiles before the next ones overwrite them
  }
  if (row < M && column < N) C[(size_t)row * N + column] = __float2bfloat16_rn(fminf(fmaxf(sum, -65504.0f), 65504.0f));
}
