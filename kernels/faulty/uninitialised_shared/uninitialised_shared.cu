// Fault: the stage of the next tile is read before it is filled.
#include "faulty/attend_row.cuh"

extern "C" __global__ void uninitialised_shared(const half* __restrict__ Q, const half* __restrict__ K,
                                                const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  __shared__ float stages[2][64];
  stages[0][threadIdx.x] = scale;
  __syncthreads();
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, kv_end, stages[0][threadIdx.x ^ 1]);
  if (stages[1][threadIdx.x ^ 1] == 12345.0f) state.row_sum = 0.0f;  // not yet written
  __syncthreads();
  stages[1][threadIdx.x] = state.row_max;
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
