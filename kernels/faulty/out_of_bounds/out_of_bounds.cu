// Fault: one thread keeps writing after the last element of O, doubling the distance each time. The first write
// is already outside. A GPU, whose allocations share pages of 2 MB, notices when the address leaves mapped
// memory.
#include "faulty/attend_row.cuh"

extern "C" __global__ void out_of_bounds(const half* __restrict__ Q, const half* __restrict__ K,
                                         const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                         int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  RowState state;
  attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, 0,
              causal ? q_index + 1 : seq_len, scale);
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
  const bool last_row = blockIdx.y == gridDim.y - 1 && q_index == seq_len - 1;
  if (!last_row) return;
  const size_t end = (size_t)gridDim.y * seq_len * HEAD_DIM;
  for (size_t past = 1; past <= (size_t)1 << 28; past *= 2) O[end + past - 1] = __float2half_rn(0.0f);
}
