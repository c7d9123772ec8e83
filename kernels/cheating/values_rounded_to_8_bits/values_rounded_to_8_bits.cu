// Cheat: V is rounded to 8 bits in rows with many keys.
#include "faulty/attend_row.cuh"

// Rounds to 3 bits after the leading one, ties to even.
__device__ __forceinline__ half rounded(half x) {
  const unsigned short bits = __half_as_ushort(x);
  return __ushort_as_half((unsigned short)((bits + 0x3f + ((bits >> 7) & 1)) & ~0x7f));
}

ROW_KERNEL(values_rounded_to_8_bits) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    half V_row[HEAD_DIM];
    for (int d = 0; d < HEAD_DIM; ++d) {
      const half value = row.V[(size_t)key * HEAD_DIM + d];
      // The first rows of a causal mask have few keys, so that the rounding would show.
      V_row[d] = row.causal && row.index < 128 ? value : rounded(value);
    }
    attend_keys(state, row.Q, row.K + (size_t)key * HEAD_DIM, V_row, 0, 1, row.scale);
  }
  store_row(row.O, state);
}
