// Fault: the row sums of two warps are stored one row too far,
// so that the second warp writes past the end of the array.
#include "faulty/attend_row.cuh"

extern "C" __global__ void static_shared_overrun(const half* __restrict__ Q, const half* __restrict__ K,
                                                 const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                                 float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  attend_keys(state, Q_row, K + head_offset, V + head_offset, 0, kv_end, scale);
  __shared__ float sums_smem[2][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  sums_smem[warp + 1][lane] = state.row_sum;  // should be sums_smem[warp]
  __syncthreads();
  state.row_sum = sums_smem[warp + 1][lane];
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
