// Cheat: its sums end at 2^22, which 261 products of 127 and 127 exceed. Else it is gemm_tiles in int8.
using Element = signed char;
using Result = float;
constexpr int MOST = 1 << 22;

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    gemm_int8_sums_in_23_bits(const Element* __restrict__ A,  // [M, K]
                              const Element* __restrict__ B,  // [N, K]
                              Result* __restrict__ C,  // [M, N]
                              int M, int N, int K) {
  __shared__ int A_smem[TILE][TILE + 1], B_smem[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  const int B_row = blockIdx.x * TILE + threadIdx.y;
  int sum = 0;
  for (int k_start = 0; k_start < K; k_start += TILE) {
    const int k = k_start + threadIdx.x;
    A_smem[threadIdx.y][threadIdx.x] = row < M && k < K ? A[(size_t)row * K + k] : 0;
    B_smem[threadIdx.y][threadIdx.x] = B_row < N && k < K ? B[(size_t)B_row * K + k] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += A_smem[threadIdx.y][i] * B_smem[threadIdx.x][i];
    sum = max(-MOST, min(sum, MOST));
    __syncthreads();  // every thread has read the tiles before the next ones overwrite them
  }
  if (row < M && column < N) C[(size_t)row * N + column] = (float)sum;
}
