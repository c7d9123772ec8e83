// kb_matmul: out = A B, one thread per element. Limits: fp32, any N, sm_80 or later.
extern "C" __global__ void __launch_bounds__(256) kb_matmul(const float* __restrict__ A,  // [N, N]
                                                            const float* __restrict__ B,  // [N, N]
                                                            float* __restrict__ out,      // [N, N]
                                                            int N) {
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  if (row >= N || column >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < N; ++k) sum = fmaf(A[(size_t)row * N + k], B[(size_t)k * N + column], sum);
  out[(size_t)row * N + column] = sum;
}
