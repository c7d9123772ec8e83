// kb_relu: out = max(x, 0). Limits: fp32, up to 65,535 rows, sm_80 or later.
extern "C" __global__ void __launch_bounds__(256) kb_relu(const float* __restrict__ x,  // [batch_size, dim]
                                                          float* __restrict__ out,      // [batch_size, dim]
                                                          int dim) {
  const int column = blockIdx.x * 256 + threadIdx.x;
  if (column >= dim) return;
  const size_t at = (size_t)blockIdx.y * dim + column;
  out[at] = fmaxf(x[at], 0.0f);
}
