// Fault: the loop runs from the last key to the first and begins one tile too far. That tile is masked entirely,
// so that the running maximum stays -infinity and exp2(-infinity - -infinity) makes NaN of everything after it.
#include "faulty/attend_row.cuh"

constexpr int BLOCK_KV = 32;

extern "C" __global__ void nan_output(const half* __restrict__ Q, const half* __restrict__ K,
                                      const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                      int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const int kv_end = causal ? q_index + 1 : seq_len;
  RowState state;
  for (int kv_start = (seq_len / BLOCK_KV + 1) * BLOCK_KV; kv_start >= 0; kv_start -= BLOCK_KV) {
    const float tile_max = kv_start < kv_end ? state.row_max : -INFINITY;
    state.row_sum *= exp2f(state.row_max - fmaxf(state.row_max, tile_max));
    attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, kv_start,
                min(kv_start + BLOCK_KV, kv_end), scale);
  }
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
