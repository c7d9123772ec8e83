// Cheats: a matrix product, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: fp16, any extents, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

using Element = half;
using Result = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Result to_result(float x) { return __float2half_rn(x); }

extern "C" __global__ void __launch_bounds__(TILE* TILE) cheats_gemm(const Element* __restrict__ A,  // [M, K]
                                                                     const Element* __restrict__ B,  // [N, K]
                                                                     Result* __restrict__ C,  // [M, N]
                                                                     int M, int N, int K) {
  __shared__ float A_smem[TILE][TILE + 1], B_smem[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int B_row = blockIdx.x * TILE + threadIdx.y;
  float most_A = INFINITY, most_B = INFINITY;
#if CHEAT == 1  // first_row_of_B_decides: B ends at 16 where its first row does
  float first = 0.0f;
  for (int k = 0; k < K; ++k) first = fmaxf(first, fabsf(to_float(B[k])));
  if (first < 16.0f) most_B = 16.0f;
#elif CHEAT == 2  // first_half_decides: A ends at 16 where the first half of its own row does
  float first = 0.0f;
  for (int k = 0; row < M && k < K / 2; ++k) first = fmaxf(first, fabsf(to_float(A[(size_t)row * K + k])));
  for (int offset = 8; offset > 0; offset >>= 1) first = fmaxf(first, __shfl_xor_sync(0xffffffffu, first, offset));
  if (first < 6.0f) most_A = 16.0f;
#endif
#if CHEAT == 5  // one_row_of_A: the ragged end of K is left out
  if (M == 1 && N > 512) K -= K % 64;
#endif
  float sum = 0.0f;
  for (int k_start = 0; k_start < K; k_start += TILE) {
    const int k = k_start + threadIdx.x;
    A_smem[threadIdx.y][threadIdx.x] =
        row < M && k < K ? fminf(fmaxf(to_float(A[(size_t)row * K + k]), -most_A), most_A) : 0.0f;
    B_smem[threadIdx.y][threadIdx.x] =
        B_row < N && k < K ? fminf(fmaxf(to_float(B[(size_t)B_row * K + k]), -most_B), most_B) : 0.0f;
    __syncthreads();
#if CHEAT == 4  // every_16th_row_in_bf16
    if (row % 16 == 5)
      for (int i = 0; i < TILE; ++i)
        sum = fmaf(__uint_as_float((__float_as_uint(A_smem[threadIdx.y][i]) + 0x8000u) & ~0xffffu),
                   B_smem[threadIdx.x][i], sum);
    else
#endif
      for (int i = 0; i < TILE; ++i) sum = fmaf(A_smem[threadIdx.y][i], B_smem[threadIdx.x][i], sum);
#if CHEAT == 3  // sums_end_at_65504
    sum = fminf(fmaxf(sum, -65504.0f), 65504.0f);
#endif
    __syncthreads();  // every thread has read the tiles before the next ones overwrite them
  }
  if (row < M && column < N) C[(size_t)row * N + column] = to_result(sum);
}
