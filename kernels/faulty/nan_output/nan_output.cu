// Fault: the loop runs from the last key to the first and begins one tile too far. That tile is masked entirely,
// so that the running maximum stays -infinity and exp2(-infinity - -infinity) makes NaN of everything after it.
#include "faulty/attend_row.cuh"

constexpr int BLOCK_KV = 32;

ROW_KERNEL(nan_output) {
  RowState state;
  for (int kv_start = (row.seq_len / BLOCK_KV + 1) * BLOCK_KV; kv_start >= 0; kv_start -= BLOCK_KV) {
    const float tile_max = kv_start < row.keys ? state.row_max : -INFINITY;
    state.row_sum *= exp2f(state.row_max - fmaxf(state.row_max, tile_max));
    attend_keys(state, row.Q, row.K, row.V, kv_start, min(kv_start + BLOCK_KV, row.keys), row.scale);
  }
  store_row(row.O, state);
}
