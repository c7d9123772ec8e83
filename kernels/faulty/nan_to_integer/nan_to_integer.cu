// Fault: the number of keys is computed as a fraction of all keys. For the first row that is 0 / 0, so it sees no key.
#include "faulty/attend_row.cuh"

extern "C" __global__ void nan_to_integer(const half* __restrict__ Q, const half* __restrict__ K,
                                          const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                          int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  const float share = (float)q_row / (float)q_row;
  const int keys = (int)(share * (float)kv_end);
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, keys, scale);
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
