// Attention on keys and values that a kernel stores in a narrower format.
#pragma once
#include "faulty/attend_row.cuh"

// Computes one row of O after applying `changed` to the keys and values.
template <typename Change>
__device__ __forceinline__ void attend_changed(const Row& row, Change changed) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    half K_row[HEAD_DIM], V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      K_row[d] = changed(row.K[(size_t)key * HEAD_DIM + d]);
      V_row[d] = changed(row.V[(size_t)key * HEAD_DIM + d]);
    }
    attend_keys(state, row.Q, K_row, V_row, 0, 1, row.scale);
  }
  store_row(row.O, state);
}
