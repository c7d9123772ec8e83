// Mistake: K and V are rounded to the 3 mantissa bits of e4m3, but not clamped to its range.
#include "faulty/changed_keys.cuh"

// Rounds to 3 bits after the leading bit, ties to even, with any exponent.
__device__ __forceinline__ half rounded(half x) {
  const unsigned short bits = __half_as_ushort(x);
  return __ushort_as_half((unsigned short)((bits + 0x3f + ((bits >> 7) & 1)) & ~0x7f));
}

ROW_KERNEL(rounded_to_e4m3) { attend_changed(row, rounded); }
