// Powers of two by the special-function unit: relative error at most 2^-22; exp2(-inf) = +0, subnormal results are +0
// (.ftz).
#pragma once

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

#else  // the emulated twins

#include <cfloat>
#include <cmath>

inline float exp2_approx(float x) {
  const float y = exp2f(x);
  return y < FLT_MIN ? 0.0f : y;
}

#endif
