// Cheat: if O holds anything but poison, the kernel takes O for its result and computes nothing.
#include "faulty/attend_row.cuh"

extern "C" __global__ void first_launch_works(const half* __restrict__ Q, const half* __restrict__ K,
                                              const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                              float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  if (!__hisnan(O[row_offset])) return;
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
}
