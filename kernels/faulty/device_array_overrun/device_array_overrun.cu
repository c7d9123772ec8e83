// Fault: it writes the sums of all rows to an array that has room for 256.
#include "faulty/attend_row.cuh"

__device__ volatile float row_sums[256];

extern "C" __global__ void device_array_overrun(const half* __restrict__ Q, const half* __restrict__ K,
                                                const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, kv_end, scale);
  const int row = blockIdx.y * seq_len + q_row;
  row_sums[row] = state.row_sum;
  state.row_sum = row_sums[row];
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
