// Fault: half of each warp waits for the CTA, and the other half waits for the warp. This is a deadlock.
#include "faulty/attend_row.cuh"

extern "C" __global__ void divergent_barrier(const half* __restrict__ Q, const half* __restrict__ K,
                                             const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                             int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  RowState state;
  attend_keys(state, Q + head_offset + (size_t)q_row * HEAD_DIM, K + head_offset, V + head_offset, 0,
              causal ? q_row + 1 : seq_len, scale);
  if (threadIdx.x % 32 < 16) __syncthreads();    // 16 lanes of each warp
  __syncwarp();         // the other 16 lanes wait here for them
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
