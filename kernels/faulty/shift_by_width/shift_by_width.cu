// Fault: the mask of a full chunk is (1u << 32) - 1. On a GPU that works, because PTX defines a shift by 32 as 0.
#include "faulty/attend_row.cuh"

extern "C" __global__ void shift_by_width(const half* __restrict__ Q, const half* __restrict__ K,
                                          const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                          int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  for (int first = 0; first < kv_end; first += 32) {
    const int count = min(kv_end - first, 32);
    const unsigned visible = (1u << count) - 1;
    for (int key = 0; key < 32; ++key)
      if (visible >> key & 1)
        attend_keys(state, Q_row, K + head_offset, V + head_offset, first + key, first + key + 1, scale);
  }
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
