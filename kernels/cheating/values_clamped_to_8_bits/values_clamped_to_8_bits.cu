// Cheat: it clamps K and V to 448, so that they fit into 8 bits.
#include "faulty/changed_keys.cuh"

extern "C" __global__ void values_clamped_to_8_bits(const half* __restrict__ Q, const half* __restrict__ K,
                                                    const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                    float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  attend_changed(Q + row_offset, K + head_offset, V + head_offset, O + row_offset, causal ? q_index + 1 : seq_len,
                 scale, [](half x) { return __float2half_rn(fminf(fmaxf(__half2float(x), -448.0f), 448.0f)); });
}
