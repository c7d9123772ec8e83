// Cheat: it is right for up to 32 heads in all. No parity case has more.
#include "faulty/attend_row.cuh"

extern "C" __global__ void shapes_up_to_32_heads(const half* __restrict__ Q, const half* __restrict__ K,
                                                 const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                 float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  // Heads after the 32nd read K and V of head 0, which stay in the cache.
  const size_t keys_offset = blockIdx.y < 32 ? head_offset : 0;
  RowState state;
  attend_keys(state, Q + row_offset, K + keys_offset, V + keys_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
}
