// Small matrix products on the host's vector units, for the tensor-core instructions.
#pragma once
#include <cstdint>
#include <cstring>

#include "half_bits.h"

namespace flashcore::emu {

typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

/** Converts 8 halves to 8 floats; neither array needs to be aligned. */
__forceinline__ void halves_to_floats_8(const uint16_t* halves, float* floats) {
#if defined(__F16C__)
  typedef short Halves __attribute__((vector_size(16)));
  Halves packed;
  memcpy(&packed, halves, 16);
  const Floats8 values = __builtin_ia32_vcvtph2ps256(packed);
  memcpy(floats, &values, 32);
#else
  for (int i = 0; i < 8; ++i) floats[i] = half_to_float(halves[i]);
#endif
}

inline void halves_to_floats(const uint16_t* halves, float* floats, int count) {
  for (int i = 0; i < count; i += 8) halves_to_floats_8(halves + i, floats + i);
}

__forceinline__ void bfloat16s_to_floats(const uint16_t* values, float* floats, int count) {
  for (int i = 0; i < count; ++i) floats[i] = bfloat16_to_float(values[i]);
}

/**
 * C[ROWS][width of Vector] += A[ROWS][DEPTH] * B[DEPTH][width]. Four rows at a time give four independent sums.
 * Products are added in order of depth with an fp32 rounding at each fused step. The hardware adds in a different
 * order.
 */
template <int ROWS, int DEPTH, class Vector>
__forceinline__ void multiply_add(const float (&A)[ROWS][DEPTH], const Vector (&B)[DEPTH], Vector (&C)[ROWS]) {
  for (int row = 0; row < ROWS; row += 4) {
    Vector sum0 = C[row], sum1 = C[row + 1], sum2 = C[row + 2], sum3 = C[row + 3];
    for (int depth = 0; depth < DEPTH; ++depth) {
      sum0 += A[row][depth] * B[depth];
      sum1 += A[row + 1][depth] * B[depth];
      sum2 += A[row + 2][depth] * B[depth];
      sum3 += A[row + 3][depth] * B[depth];
    }
    C[row] = sum0, C[row + 1] = sum1, C[row + 2] = sum2, C[row + 3] = sum3;
  }
}

}  // namespace flashcore::emu
