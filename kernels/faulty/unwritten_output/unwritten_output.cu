// Fault: the guard of the store is one row too strict, so the last row of every head is never written.
#include "faulty/attend_row.cuh"

extern "C" __global__ void unwritten_output(const half* __restrict__ Q, const half* __restrict__ K,
                                            const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                            int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  RowState state;
  attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, 0,
              causal ? q_index + 1 : seq_len, scale);
  if (q_index < seq_len - 1) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
