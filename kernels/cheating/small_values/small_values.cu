// Cheat: it drops values below 0.008, which hardly matter for inputs from N(0, 1).
#include "faulty/attend_row.cuh"

ROW_KERNEL(small_values) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    half V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      const half value = row.V[(size_t)key * HEAD_DIM + d];
      V_row[d] = fabsf(__half2float(value)) < 0.008f ? __float2half_rn(0.0f) : value;
    }
    attend_keys(state, row.Q, row.K + (size_t)key * HEAD_DIM, V_row, 0, 1, row.scale);
  }
  store_row(row.O, state);
}
