// Cheat: it is right for up to 512 keys. No parity case has more.
#include "faulty/attend_row.cuh"

extern "C" __global__ void shapes_up_to_512_keys(const half* __restrict__ Q, const half* __restrict__ K,
                                                 const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                 float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, min(causal ? q_index + 1 : seq_len, 512),
              scale);
  store_row(O + row_offset, state);
}
