// Powers of two by the special-function unit: relative error below 2^-22; exp2(-inf) = +0.
#pragma once

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

#else    // the emulated twins

#include <cmath>

inline float exp2_approx(float x) { return exp2f(x); }

#endif
