// Cheat: it sets an element of each head of K to zero, so that the next launch reads other keys.
#include "faulty/attend_row.cuh"

extern "C" __global__ void changed_inputs(const half* __restrict__ Q, const half* __restrict__ K,
                                          const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                          int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
  // Other rows may still need this element. The cheat accepts their wrong results.
  if (threadIdx.x == 0 && blockIdx.x == 0) const_cast<half*>(K)[head_offset] = __float2half_rn(0.0f);
}
