// Fault: it counts nine kinds of keys in an array of eight counters.
#include "faulty/attend_row.cuh"

extern "C" __global__ void local_overrun(const half* __restrict__ Q, const half* __restrict__ K,
                                         const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                         int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, kv_end, scale);
  int counts[8] = {};
  for (int key = 0; key < kv_end; ++key) ++counts[key % 9];  // nine kinds
  int total = 0;
  for (int kind = 0; kind < 8; ++kind) total += counts[(kind * (threadIdx.x + 1)) % 8];
  if (total < 0) state.row_sum = 0.0f;  // so that the compiler keeps the array
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
