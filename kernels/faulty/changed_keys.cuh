// Attention on keys and values that a kernel stores in a narrower format.
#pragma once
#include "faulty/attend_row.cuh"

// Computes one row of O after applying `changed` to the keys and values.
template <typename Change>
__device__ __forceinline__ void attend_changed(const half* Q_row, const half* K_head, const half* V_head, half* O_row,
                                               int kv_end, float scale, Change changed) {
  RowState state;
  for (int key = 0; key < kv_end; ++key) {
    half K_row[HEAD_DIM], V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      K_row[d] = changed(K_head[(size_t)key * HEAD_DIM + d]);
      V_row[d] = changed(V_head[(size_t)key * HEAD_DIM + d]);
    }
    attend_keys(state, Q_row, K_row, V_row, 0, 1, scale);
  }
  store_row(O_row, state);
}
