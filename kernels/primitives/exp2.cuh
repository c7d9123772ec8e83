// Powers of two by the special-function unit. The relative error is at most 2^-22, exp2(-inf) is +0, and subnormal
// results are +0 (.ftz).
#pragma once

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

#else  // for the emulator

#include <cfloat>
#include <cmath>

inline float exp2_approx(float x) {
  const float y = exp2f(x);
  return y < FLT_MIN ? 0.0f : y;
}

#endif
