// Fault: two warps exchange values through volatile shared memory without a __syncthreads() in between.
#include "faulty/attend_row.cuh"

extern "C" __global__ void volatile_exchange(const half* __restrict__ Q, const half* __restrict__ K,
                                             const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                             int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, kv_end, scale);
  __shared__ volatile float max_smem[64];
  max_smem[threadIdx.x] = state.row_max;
  // __syncthreads() belongs here
  if (max_smem[threadIdx.x ^ 32] == 12345.0f) state.row_sum = 0.0f;
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
